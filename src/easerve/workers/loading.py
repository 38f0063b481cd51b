"""Loads the engines of a worker: only the parts of the model its stages need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from easerve.engine.base import Encoder, LanguageModel
from easerve.engine.torch.engine import TorchEncoder, TorchLanguageModel
from easerve.engine.vllm.arguments import parse_arguments
from easerve.errors import StartupError
from easerve.models.base import Family
from easerve.models.registry import load_family
from easerve.workers.spec import WorkerSpec, usable_cores


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
    if spec.engine_name == "timed":
        return _timed(spec)
    if spec.device.kind == "cuda" and not torch.cuda.is_available():
        raise StartupError(f"device {spec.device}: this machine has no CUDA device that torch can use; use cpu:0")
    torch.set_num_threads(len(spec.device.indices) if spec.device.kind == "cpu" else 1)
    family = load_family(spec.model)
    dtype = _dtype(spec.dtype)
    encoder = language_model = None
    if "encode" in spec.stages:
        progress("loading the encoder")
        encoder = TorchEncoder(family.load_encoder(spec.device.torch_name, dtype))
    if spec.generates:
        progress("loading the language model")
        language_model = _LANGUAGE_MODELS[spec.engine_name](spec, family, dtype)
    return Engines(encoder, language_model)


def _timed(spec: WorkerSpec) -> Engines:
    """Nothing of the model is loaded but what it says of itself."""
    from easerve.engine.timed.start import timed_costs, timed_encoder, timed_language_model

    torch.set_num_threads(1)
    family = load_family(spec.model)
    costs = timed_costs(family.folder, parse_arguments(spec.engine_args))
    return Engines(
        timed_encoder(family, costs) if "encode" in spec.stages else None,
        timed_language_model(family, costs, spec.engine) if spec.generates else None,
    )


def _torch(spec: WorkerSpec, family: Family, dtype: torch.dtype | None) -> LanguageModel:
    return TorchLanguageModel(family.load_language_model(spec.device.torch_name, dtype), spec.engine)


def _vllm(spec: WorkerSpec, family: Family, dtype: torch.dtype | None) -> LanguageModel:
    from easerve.engine.vllm.environment import prepare_environment

    prepare_environment(usable_cores() if spec.device.kind == "cpu" else None)
    from easerve.engine.vllm.start import start

    arguments = parse_arguments(spec.engine_args)
    return start(family, dtype, spec.engine, arguments, spec.device.kind, kv_travels=spec.kv_travels)


_LANGUAGE_MODELS = {"torch": _torch, "vllm": _vllm}


def _dtype(name: str) -> torch.dtype | None:
    if name == "auto":
        return None
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise StartupError(f"dtype {name!r} is none; write auto, float32, bfloat16 or float16")
    return dtype
