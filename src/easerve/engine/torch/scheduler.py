"""What one step computes: decode tokens first, then prefill chunks in the rest of the token budget.

First come, first served. When the pool is full the youngest running sequence gives up its blocks and is computed
again later (preemption by recompute), so the oldest always gets on. As in vLLM's v1 scheduler. A sequence that came
with keys and values cannot be computed again without its media: the plan names it, and what it had is set aside.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from easerve.engine.torch.kv_cache import BlockPool
from easerve.engine.torch.sequence import Sequence


@dataclass(frozen=True)
class Chunk:
    """The next `count` uncomputed tokens of a sequence."""

    sequence: Sequence
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
class Displaced:
    """An imported sequence that gave up its blocks; what they hold is overwritten once the plan's chunks compute."""

    sequence: Sequence
    blocks: list[int]


@dataclass(frozen=True)
class Plan:
    """What a step does, in this order: set aside the displaced, compute the chunks."""

    chunks: list[Chunk]
    displaced: list[Displaced]


class Scheduler:
    """Owns the queues and the block pool."""

    def __init__(self, pool: BlockPool, block_size: int, max_tokens: int, max_sequences: int) -> None:
        self.pool = pool
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []  # oldest first
        self.preemptions = 0
        self._displaced: list[Displaced] = []  # since the last plan
        self._block_size = block_size
        self._max_tokens = max_tokens
        self._max_sequences = max_sequences

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """Forget it, and take its blocks back."""
        self.pool.give_back(sequence.blocks)
        sequence.blocks = []
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)

    def schedule(self) -> Plan:
        """The next step; each of its chunks has its blocks.

        Going by age is going by stage: only the youngest can still be prefilling, since none is admitted while
        another's prompt takes the whole budget. So decode tokens come first, and who gives way was not reached yet.
        """
        budget = self._max_tokens
        chunks: list[Chunk] = []
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

    def _admit(self, budget: int) -> list[Chunk]:
        """New sequences while budget, places and blocks last; none overtakes another, and none displaces another.

        A sequence waits until the pool has room for all it has to compute: one that was started without would soon
        be displaced again, its work lost. So what was preempted in this very step never comes straight back. What the
        pool can hold when empty was checked when it was added.
        """
        chunks: list[Chunk] = []
        while self.waiting and budget > 0 and len(self.running) < self._max_sequences:
            sequence = self.waiting[0]
            count = min(budget, sequence.uncomputed)
            if self._needed(sequence, sequence.uncomputed) > self.pool.free or not self._extend(sequence, count):
                break
            self.running.append(self.waiting.popleft())
            chunks.append(Chunk(sequence, count))
            budget -= count
        return chunks

    def _make_room(self, sequence: Sequence, count: int) -> bool:
        """Blocks for the chunk, at the cost of younger sequences; False if it had to give way itself."""
        while not self._extend(sequence, count):
            youngest = self.running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        return True

    def _extend(self, sequence: Sequence, count: int) -> bool:
        blocks = self.pool.take(self._needed(sequence, count))
        if blocks is None:
            return False
        sequence.blocks += blocks
        return True

    def _needed(self, sequence: Sequence, count: int) -> int:
        """Blocks it lacks for its next `count` tokens."""
        return max(0, -(-(sequence.computed + count) // self._block_size) - len(sequence.blocks))

    def _preempt(self, sequence: Sequence) -> None:
        self.preemptions += 1
        self.running.remove(sequence)
        if sequence.imported:
            self._displaced.append(Displaced(sequence, sequence.blocks))
        else:
            sequence.computed = 0
        self.pool.give_back(sequence.blocks)
        sequence.blocks = []
        self.waiting.appendleft(sequence)
