"""The servers that are compared, as commands with `{port}` in them; all get the same cores.

vLLM is left at its defaults but for what it needs on a CPU: where its threads run, how large its KV cache is, and how
many pictures a request may have. The threads of an aggregated server are bound to all cores; encoder and generator of a
split one to a half each. API servers, proxy and our front end run where the kernel puts them.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
IMAGES = 10  # most in one request
CONTEXT = 4096  # tokens

AGGREGATED = "vllm-aggregated"
SPLIT = "vllm-1e-1pd"

OURS = {  # name -> options of `easerve serve`; the encode batch is one request's pictures
    "easerve-e-pd": "--topology e-pd --encode-batch 2",
    "easerve-e-pd-10": "--topology e-pd --encode-batch 10",
    "easerve-half-local-prefill": "--topology easerve --prefillers 0 --remote-ratio 0.5 --encode-batch 2",
    "easerve-shared-prefill": "--topology easerve --prefillers 0 --remote-ratio 0.25 --encode-batch 10",
    "easerve-aggregated": "--topology aggregated",
}


@dataclass(frozen=True)
class Machine:
    """What commands depend on. `engine` is ours: torch, or vllm from `vllm_python`'s environment."""

    model: Path
    cores: Sequence[int]
    vllm_python: Path
    engine: str = "torch"
    engine_python: Path = Path(sys.executable)


def command(name: str, machine: Machine) -> str:
    """Raises KeyError for a name that is none."""
    if name == AGGREGATED:
        words = [*_vllm_environment(machine), *_vllm_server(machine)]
    elif name == SPLIT:
        words = [*_vllm_environment(machine), *_vllm_split(machine)]
    else:
        words = [*_ours(machine), *shlex.split(OURS[name])]
    return shlex.join(words).replace("PORT", "{port}")


def _ours(machine: Machine) -> list[str]:
    return [
        *(str(machine.engine_python), "-m", "easerve", "serve", "--port", "PORT", "--device", "cpu"),
        *("--model", str(machine.model), "--limit-images", str(IMAGES), "--max-model-len", str(CONTEXT)),
        *("--engine", machine.engine),
    ]


def _vllm_environment(machine: Machine) -> list[str]:
    return [
        *("env", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "VLLM_CPU_KVCACHE_SPACE=1"),
        f"VLLM_CPU_OMP_THREADS_BIND={_listed(machine.cores)}",
    ]


def _vllm_options() -> list[str]:
    return ["--max-model-len", str(CONTEXT), "--limit-mm-per-prompt", f'{{"image": {IMAGES}, "video": 0}}']


def _vllm_server(machine: Machine) -> list[str]:
    return [
        *(str(machine.vllm_python), "-m", "vllm.entrypoints.openai.api_server", "--host", "127.0.0.1"),
        *("--port", "PORT", "--model", str(machine.model), *_vllm_options()),
    ]


def _vllm_split(machine: Machine) -> list[str]:
    half = max(1, len(machine.cores) // 2)
    first, second = machine.cores[:half], machine.cores[half:] or machine.cores
    return [
        *(str(machine.vllm_python), str(HERE / "vllm_epd.py"), "--port", "PORT", "--model", str(machine.model)),
        *("--encode-cores", _listed(first), "--generate-cores", _listed(second), "--", *_vllm_options()),
    ]


def _listed(cores: Sequence[int]) -> str:
    return ",".join(map(str, cores))
