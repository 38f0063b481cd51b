"""What one step computes: decode tokens first, then prefill chunks in the rest of the token budget.

First come, first served. When the pool is full the youngest running sequence gives up its blocks and is computed
again later (preemption by recompute), so the oldest always gets on. As in vLLM's v1 scheduler. A sequence that came
with keys and values cannot be computed again without its media: the plan names it, and what it had is set aside.

Numbers of tokens are all it knows of a sequence, so engines that compute and engines that only take time share it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from easerve.engine.scheduling.pool import BlockPool


class Schedulable(Protocol):
    """A sequence as far as it is scheduled. `computed` tokens have their keys and values, in `blocks` while it runs."""

    computed: int
    blocks: list[int]
    imported: bool  # came with keys and values

    @property
    def uncomputed(self) -> int:
        """Tokens still to be computed; 1 while decoding."""
        ...


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


class Scheduler(Generic[S]):
    """Owns the queues and the block pool."""

    def __init__(self, pool: BlockPool, block_size: int, max_tokens: int, max_sequences: int) -> None:
        self.pool = pool
        self.waiting: deque[S] = deque()
        self.running: list[S] = []  # oldest first
        self.preemptions = 0
        self._displaced: list[Displaced[S]] = []  # since the last plan
        self._block_size = block_size
        self._max_tokens = max_tokens
        self._max_sequences = max_sequences

    def add(self, sequence: S) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: S) -> None:
        """Forget it, and take its blocks back."""
        self.pool.give_back(sequence.blocks)
        sequence.blocks = []
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)

    def schedule(self) -> Plan[S]:
        """The next step; each of its chunks has its blocks.

        Going by age is going by stage: only the youngest can still be prefilling, since none is admitted while
        another's prompt takes the whole budget. So decode tokens come first, and who gives way was not reached yet.
        """
        budget = self._max_tokens
        chunks: list[Chunk[S]] = []
        for sequence in list(self.running):
            if budget == 0 or sequence not in self.running:  # it, and all younger ones, gave way to an older one
                break
            count = min(budget, sequence.uncomputed)
            if self._make_room(sequence, count):
                chunks.append(Chunk(sequence, count))
                budget -= count
        chunks += self._admit(budget)
        displaced, self._displaced = self._displaced, []
        return Plan(chunks, displaced)

    def _admit(self, budget: int) -> list[Chunk[S]]:
        """New sequences while budget, places and blocks last; none overtakes another, and none displaces another.

        A sequence waits until the pool has room for all it has to compute: one that was started without would soon
        be displaced again, its work lost. So what was preempted in this very step never comes straight back. What the
        pool can hold when empty was checked when it was added.
        """
        chunks: list[Chunk[S]] = []
        while self.waiting and budget > 0 and len(self.running) < self._max_sequences:
            sequence = self.waiting[0]
            count = min(budget, sequence.uncomputed)
            if self._needed(sequence, sequence.uncomputed) > self.pool.free or not self._extend(sequence, count):
                break
            self.running.append(self.waiting.popleft())
            chunks.append(Chunk(sequence, count))
            budget -= count
        return chunks

    def _make_room(self, sequence: S, count: int) -> bool:
        """Blocks for the chunk, at the cost of younger sequences; False if it had to give way itself."""
        while not self._extend(sequence, count):
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        return True

    def _extend(self, sequence: S, count: int) -> bool:
        blocks = self.pool.take(self._needed(sequence, count))
        if blocks is None:
            return False
        sequence.blocks += blocks
        return True

    def _needed(self, sequence: S, count: int) -> int:
        """Blocks it lacks for its next `count` tokens."""
        return max(0, -(-(sequence.computed + count) // self._block_size) - len(sequence.blocks))

    def _preempt(self, sequence: S) -> None:
        self.preemptions += 1
        self.running.remove(sequence)
        if sequence.imported:
            self._displaced.append(Displaced(sequence, sequence.blocks))
        else:
            sequence.computed = 0
        self.pool.give_back(sequence.blocks)
        sequence.blocks = []
        self.waiting.appendleft(sequence)
