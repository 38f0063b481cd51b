"""Which language-model engine a worker runs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

EngineName = Literal["torch", "vllm", "timed"]
HOW_TO_INSTALL_VLLM = "pip install 'easerve[vllm]' where there is a GPU, `make setup-vllm` where there is none"
TIMED_NEEDS_HARDWARE = "engine timed needs to know what device to be: --engine-args hardware=a100"


def vllm_is_installed() -> bool:
    """Without importing it, which takes seconds."""
    return find_spec("vllm") is not None


def choose_engine(asked: Literal["auto", "torch", "vllm", "timed"], device_kind: Literal["cpu", "cuda"]) -> EngineName:
    """`auto` is vLLM on a CUDA device where it is installed, and torch everywhere else."""
    if asked != "auto":
        return asked
    return "vllm" if device_kind == "cuda" and vllm_is_installed() else "torch"
