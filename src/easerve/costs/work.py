"""What a computation takes of a device, and the roofline: no faster than its arithmetic or its traffic.

The roofline is used three ways: as a time where nothing was measured, to carry a measured time over to a similar
device, and to tell how far a time stretches when a stage has only part of its device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """Arithmetic (floating-point operations) and memory traffic (bytes)."""

    flops: float
    bytes: float

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.bytes + other.bytes)

    def split(self, ways: int) -> Work:
        return Work(self.flops / ways, self.bytes / ways)


@dataclass(frozen=True)
class Rates:
    """What a device does in a second: operations, and bytes of its memory."""

    flops: float
    bandwidth: float

    def seconds(self, work: Work) -> float:
        return max(work.flops / self.flops, work.bytes / self.bandwidth)

    def scaled(self, flops: float, bandwidth: float) -> Rates:
        return Rates(self.flops * flops, self.bandwidth * bandwidth)


def stretch(work: Work, known: Rates, wanted: Rates) -> float:
    """How many times as long `work` takes at the rates `wanted` as at the rates `known`."""
    before = known.seconds(work)
    return wanted.seconds(work) / before if before else 1.0


@dataclass(frozen=True)
class Part:
    """A piece of a stage whose time depends on two sizes (the second is 0 where one says it all).

    `work` and `seconds` are those of one device of a tensor-parallel group that has the device, and hence `rates`, to
    itself; `source` says where the seconds come from.
    """

    work: Callable[[float, float], Work]
    seconds: Callable[[float, float], float]
    rates: Rates
    source: str
