"""vLLM's own options as `--engine-args` takes them: `key=value`, in vLLM's names. Needs no vLLM.

What EAServe sets itself, or what would break its protocol, is refused with the option to use instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

_OURS = "EAServe sets it itself"
_ONE_DEVICE = "a worker runs on one device; list more workers"
_TOKENS_ONLY = "the front end makes tokens of text and text of tokens"
REFUSED = {
    "model": "use --model",
    "tokenizer": _TOKENS_ONLY,
    "skip_tokenizer_init": _TOKENS_ONLY,
    "served_model_name": "use --served-model-name",
    "dtype": "use --dtype",
    "max_model_len": "use --max-model-len",
    "max_num_seqs": "use --max-sequences",
    "max_num_batched_tokens": "use --max-batched-tokens",
    "kv_cache_memory_bytes": "use --kv-cache-gb",
    "limit_mm_per_prompt": "use --limit-images",
    "enable_mm_embeds": _OURS,
    "skip_mm_profiling": _OURS,
    "mm_processor_cache_gb": _OURS,
    "mm_encoder_only": "encode workers encode; this one must generate",
    "language_model_only": "it would refuse embeddings",
    "runner": "workers generate, and nothing else",
    "convert": "workers generate, and nothing else",
    "kv_transfer_config": "KV moves through --transfer",
    "ec_transfer_config": "embeddings move through --transfer",
    "distributed_executor_backend": "the worker process is the executor",
    "worker_cls": "the worker process is the executor",
    "tensor_parallel_size": _ONE_DEVICE,
    "pipeline_parallel_size": _ONE_DEVICE,
    "data_parallel_size": _ONE_DEVICE,
    "logprobs_mode": "log-probabilities are of the raw logits, whatever the engine",
}


def parse_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """Values as YAML (and so as JSON) reads them; later pairs win. Raises ValueError naming pair and remedy.

    `parse_arguments(["enforce-eager=true", "block_size=32"]) == {"enforce_eager": True, "block_size": 32}`
    """
    return dict(_parse(pair) for pair in pairs)


def as_pairs(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The reverse, for arguments that were written as a mapping."""
    return tuple(f"{name}={json.dumps(value)}" for name, value in arguments.items())


def _parse(pair: str) -> tuple[str, Any]:
    written, equals, value = pair.partition("=")
    name = written.strip().removeprefix("--").replace("-", "_")
    if not equals or not name.isidentifier():
        raise ValueError(f"{pair!r} is no key=value")
    if name in REFUSED:
        raise ValueError(f"{name} cannot be given to vLLM: {REFUSED[name]}")
    try:
        return name, yaml.safe_load(value)
    except yaml.YAMLError:
        raise ValueError(f"{name}: {value!r} is neither a plain value nor JSON") from None
