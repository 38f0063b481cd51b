"""Loads the stages of a worker: only the parts of the model they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

import torch

from easerve.engine.base import Encoder, LanguageModel
from easerve.engine.torch.engine import TorchEncoder, TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.models.base import Family
from easerve.models.registry import load_family
from easerve.transfer.base import Transfer
from easerve.workers.messages import Message, ToWorker
from easerve.workers.spec import WorkerSpec
from easerve.workers.stage import StageLoop


@dataclass
class LoadedStages:
    """The engines of a worker, ready to run."""

    device: str
    encoder: Encoder | None = None
    language_model: LanguageModel | None = None

    @property
    def max_tokens_per_sequence(self) -> int:
        return self.language_model.max_tokens_per_sequence if self.language_model else 0

    def loop(self, inbox: SimpleQueue[ToWorker], send: Callable[[Message], None], transfer: Transfer) -> StageLoop:
        return StageLoop(
            inbox=inbox,
            send=send,
            transfer=transfer,
            device=self.device,
            encoder=self.encoder,
            language_model=self.language_model,
        )


def load_stages(spec: WorkerSpec, progress: Callable[[str], None]) -> LoadedStages:
    """Raises StartupError with the reason if device or checkpoint do not serve."""
    if spec.device.kind == "cuda" and not torch.cuda.is_available():
        raise StartupError(f"device {spec.device}: this machine has no CUDA device that torch can use; use cpu:0")
    torch.set_num_threads(len(spec.device.indices) if spec.device.kind == "cpu" else 1)
    family = load_family(spec.model)
    dtype = _dtype(spec.dtype)
    stages = LoadedStages(spec.device.torch_name)
    if "encode" in spec.stages:
        progress("loading the encoder")
        _load_encoder(stages, family, dtype)
    if "generate" in spec.stages:
        progress("loading the language model")
        _load_language_model(stages, family, dtype, spec.engine)
    return stages


def _load_encoder(stages: LoadedStages, family: Family, dtype: torch.dtype | None) -> None:
    stages.encoder = TorchEncoder(family.load_encoder(stages.device, dtype))


def _load_language_model(
    stages: LoadedStages, family: Family, dtype: torch.dtype | None, options: EngineOptions
) -> None:
    stages.language_model = TorchLanguageModel(family.load_language_model(stages.device, dtype), options)


def _dtype(name: str) -> torch.dtype | None:
    if name == "auto":
        return None
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise StartupError(f"dtype {name!r} is none; write auto, float32, bfloat16 or float16")
    return dtype
