"""At which sizes stages are measured. Between them, times are interpolated; above, they go on as steep as before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stage = Literal["encode", "prefill", "decode", "transfer"]
STAGES: tuple[Stage, ...] = ("encode", "prefill", "decode", "transfer")


@dataclass(frozen=True)
class Plan:
    """`sides` of square pictures in pixels, `batches` of them; `new` tokens of a prefill chunk; `sequences` decoded
    together, each behind one of `contexts` tokens; `nbytes` of a transfer. Every time is the median of `repeats`,
    after one that does not count. Within a stage, points that would take longer than `patience` seconds are left out.
    """

    sides: tuple[int, ...] = (56, 112, 224, 336, 448, 672, 896)
    batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    new: tuple[int, ...] = (16, 64, 128, 256, 512, 1024, 2048)
    contexts: tuple[int, ...] = (32, 256, 1024, 2048)
    sequences: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    nbytes: tuple[int, ...] = (2**12, 2**16, 2**18, 2**20, 2**22, 2**24, 2**26)
    repeats: int = 5
    patience: float = 10.0

    def points(self, stage: Stage) -> int:
        """About how many there are of a stage."""
        return {
            "encode": len(self.sides) * len(self.batches),
            "prefill": 2 * len(self.new),
            "decode": len(self.contexts) * len(self.sequences),
            "transfer": len(self.nbytes),
        }[stage]
