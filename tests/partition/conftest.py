"""Real engines of a tiny checkpoint, and a device that only remembers who ran where."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from transformers import AttentionInterface

from easerve.engine.torch.attention import paged_attention
from easerve.models.base import PAGED_ATTENTION
from tests.engine.helpers import Parts, load_parts
from tests.tiny_models import make_tiny

two_cores = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="needs two cores"
)


@pytest.fixture(autouse=True)
def paged() -> None:
    """tests/models registers a stand-in under the same name, for the process."""
    AttentionInterface.register(PAGED_ATTENTION, paged_attention)


@pytest.fixture(scope="session")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    return load_parts(make_tiny("qwen2_5_vl", tmp_path_factory.mktemp("partition") / "qwen"))


@dataclass
class Recorder:
    """Implements `Partition`: four units, nothing behind them."""

    choices: tuple[int, ...] = (1, 2, 3)
    whole: int = 4
    unit: Literal["core", "SM"] = "core"
    ran: list[tuple[str, int | None]] = field(default_factory=list)

    def encode(self, held: int | None, work: Callable[[], Any]) -> Any:
        self.ran.append(("encode", held))
        return work()

    def prefill(self, held: int | None, work: Callable[[], Any]) -> Any:
        self.ran.append(("prefill", held))
        return work()

    def adopt(self, tensors: Iterable[Any]) -> None:
        self.ran += [("adopt", tensor.shape[0]) for tensor in tensors]

    def close(self) -> None:
        pass
