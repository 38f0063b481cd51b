"""Loads the engines of a worker: only the parts of the model its stages need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from easerve.engine.base import Encoder, LanguageModel
from easerve.engine.torch.engine import TorchEncoder, TorchLanguageModel
from easerve.errors import StartupError
from easerve.models.registry import load_family
from easerve.workers.spec import WorkerSpec


@dataclass(frozen=True)
class Engines:
    """What a worker computes with."""

    encoder: Encoder | None
    language_model: LanguageModel | None

    @property
    def max_tokens_per_sequence(self) -> int:
        return self.language_model.max_tokens_per_sequence if self.language_model else 0


def load_engines(spec: WorkerSpec, progress: Callable[[str], None]) -> Engines:
    """Raises StartupError with the reason if device or checkpoint do not serve."""
    if spec.device.kind == "cuda" and not torch.cuda.is_available():
        raise StartupError(f"device {spec.device}: this machine has no CUDA device that torch can use; use cpu:0")
    torch.set_num_threads(len(spec.device.indices) if spec.device.kind == "cpu" else 1)
    family = load_family(spec.model)
    device, dtype = spec.device.torch_name, _dtype(spec.dtype)
    encoder = language_model = None
    if "encode" in spec.stages:
        progress("loading the encoder")
        encoder = TorchEncoder(family.load_encoder(device, dtype))
    if spec.generates:
        progress("loading the language model")
        language_model = TorchLanguageModel(family.load_language_model(device, dtype), spec.engine)
    return Engines(encoder, language_model)


def _dtype(name: str) -> torch.dtype | None:
    if name == "auto":
        return None
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise StartupError(f"dtype {name!r} is none; write auto, float32, bfloat16 or float16")
    return dtype
