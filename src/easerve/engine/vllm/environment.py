"""What vLLM reads from the environment: to be set before it is imported, in a worker's own process."""

from __future__ import annotations

import os
from collections.abc import Sequence


def prepare_environment(cores: Sequence[int] | None) -> None:
    """The engine in this process, quiet and offline; `cores` are the CPU's it computes on, None on a GPU."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the model is a folder by now
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    if cores is not None:
        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cores))
