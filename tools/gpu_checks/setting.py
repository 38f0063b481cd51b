"""What is measured on what, and in how much time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Sizes:
    """Of models and of what they are given."""

    sides: tuple[int, ...]  # pixels of pictures; the first is the one used under load
    largest_batch: int
    chunk_tokens: tuple[int, ...]  # of prefill, the last beside encode
    text_tokens: int  # of a request under load, beside its picture
    output_tokens: int
    context_tokens: int  # of sequences that are decoded
    decode_batches: tuple[int, ...]
    repeats: int
    rounds: int  # of load, all settings in each
    requests: int  # in each, at most


FULL = Sizes((448, 224, 896), 8, (256, 1024, 2048), 128, 16, 1024, (1, 8, 32), 3, 2, 500)
TINY = Sizes((56, 112), 2, (16, 32), 8, 4, 32, (1, 2), 2, 1, 6)


@dataclass(frozen=True)
class Setting:
    """Times are seconds. Sections that would pass the deadline do less, and say so."""

    device: torch.device
    dtype: torch.dtype
    tiny: bool
    deadline: float  # of time.monotonic()
    notes: list[str] = field(default_factory=list)

    @property
    def sizes(self) -> Sizes:
        return TINY if self.tiny else FULL

    @property
    def left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def machine(device: torch.device) -> dict[str, Any]:
    """What the figures are true of."""
    import transformers

    from easerve.engine.partition.opening import hardware_name

    found: dict[str, Any] = {
        "hardware": hardware_name(device),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        found |= {"cuda": torch.version.cuda, "memory_gib": total / 2**30, "free_gib": free / 2**30}
    return found
