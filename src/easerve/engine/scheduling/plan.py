"""What a step is made of: chunks of sequences, and those that had to give way to them.

Numbers of tokens, and when it came and was begun, are all that is known of a sequence here, so engines that compute
and engines that only take time share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from easerve.policy.prefix import BlockKeys


class Schedulable(Protocol):
    """A sequence as far as it is scheduled. `computed` tokens have their keys and values, in `blocks` while it runs.

    What is said to be the scheduler's is set by nobody else. Times are seconds, on one clock.
    """

    @property
    def id(self) -> str: ...

    @property
    def prompt_length(self) -> int: ...

    @property
    def imported(self) -> bool:
        """Whether it came with keys and values."""
        ...

    @property
    def added(self) -> float: ...

    @property
    def uncomputed(self) -> int:
        """Tokens still to be computed; 1 while decoding."""
        ...

    @property
    def prefix(self) -> BlockKeys | None:
        """By which it shares blocks with others; None: with nobody."""
        ...

    computed: int  # the scheduler's once it is added
    blocks: list[int]  # the scheduler's
    first_scheduled: float | None  # the scheduler's
    cached: int  # the scheduler's: tokens that were computed already when it was first scheduled
    reported: bool  # the scheduler's: a token of it has come out of this engine


S = TypeVar("S", bound=Schedulable)


@dataclass(frozen=True)
class Chunk(Generic[S]):
    """The next `count` uncomputed tokens of a sequence."""

    sequence: S
    count: int

    @property
    def start(self) -> int:
        """Index of its first token in the sequence; holds until the sequence advances."""
        return self.sequence.computed

    @property
    def end(self) -> int:
        return self.sequence.computed + self.count

    @property
    def samples(self) -> bool:
        """Whether a token comes out: the chunk reaches the sequence's end."""
        return self.count == self.sequence.uncomputed


@dataclass(frozen=True)
class Displaced(Generic[S]):
    """An imported sequence that gave up its blocks; what they hold is overwritten once the plan's chunks compute."""

    sequence: S
    blocks: list[int]


@dataclass(frozen=True)
class Plan(Generic[S]):
    """What a step does, in this order: set aside the displaced, compute the chunks."""

    chunks: list[Chunk[S]]
    displaced: list[Displaced[S]]
