"""What a device does for the two stages that share it: run the work of each on the part that is its own just then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

MOST_SHARES = 8  # ways to split a device: each costs threads or streams, their memory, and time to profile


class Partition(Protocol):
    """A device of `whole` units (cores, SMs), shared by an encode thread and a prefill thread of one process.

    `held` is what encode holds, one of `choices`, or None where the device is not split. Nothing is interrupted: a
    stage gets another part of the device when its next piece of work starts. Each piece is complete when its call
    returns, also what it has asked of a GPU.
    """

    @property
    def unit(self) -> Literal["core", "SM"]: ...

    @property
    def whole(self) -> int: ...

    @property
    def choices(self) -> tuple[int, ...]:
        """Ascending; each leaves something to prefill; empty where the device cannot be split."""
        ...

    def encode(self, held: int | None, work: Callable[[], T]) -> T:
        """Run an encode batch on `held` units."""
        ...

    def prefill(self, held: int | None, work: Callable[[], T]) -> T:
        """Run an engine step on all but `held` units."""
        ...

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """Prefill is going to read what encode has made: its memory is not reused under prefill's hands."""
        ...

    def close(self) -> None:
        """No work is running, and none will come."""
        ...


class Whole:
    """A device that is never split: each stage computes in its own thread as if it were alone."""

    choices: tuple[int, ...] = ()

    def __init__(self, unit: Literal["core", "SM"], whole: int) -> None:
        self.unit: Literal["core", "SM"] = unit
        self.whole = whole

    def encode(self, held: int | None, work: Callable[[], T]) -> T:
        return work()

    def prefill(self, held: int | None, work: Callable[[], T]) -> T:
        return work()

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        pass

    def close(self) -> None:
        pass


def thinned(shares: Sequence[int]) -> tuple[int, ...]:
    """At most `MOST_SHARES` of them, evenly spread."""
    return tuple(shares[:: -(-len(shares) // MOST_SHARES) or 1])
