"""A vLLM engine in the test's own process, with a small KV pool."""

from __future__ import annotations

from typing import Any

from easerve.engine.torch.options import EngineOptions
from easerve.engine.vllm.environment import prepare_environment
from easerve.workers.spec import usable_cores
from tests.engine.helpers import Parts

BLOCK = 32  # tokens


def vllm_engine(parts: Parts, blocks: int, **options: Any) -> Any:
    prepare_environment(usable_cores()[:1])
    from easerve.engine.vllm.start import start

    size = BLOCK * parts.language.kv.bytes_per_token
    given = EngineOptions(
        kv_cache_bytes=(blocks + 1) * size, max_sequences=16, max_batched_tokens=128, prefix_cache=True
    )
    return start(parts.family, None, given, {"enforce_eager": True, "block_size": BLOCK}, "cpu", **options)
