"""What one step computes: decode tokens first, then prefill chunks in the rest of the token budget.

First come, first served, and each starts behind as much of its beginning as is in the pool already. When the pool is
full the youngest running sequence gives up its blocks and is computed again later (preemption by recompute), so the
oldest always gets on. As in vLLM's v1 scheduler. A sequence that came with keys and values cannot be computed again
without its media: the plan names it, and what it had is set aside.
"""

from __future__ import annotations

from collections import deque
from typing import Generic

from easerve.engine.base import EngineStats
from easerve.engine.scheduling.plan import Chunk, Displaced, Plan, S
from easerve.engine.scheduling.pool import BlockPool
from easerve.errors import EAServeError
from easerve.request import PrefillTimes


class Scheduler(Generic[S]):
    """Owns an engine's sequences, their queues and the block pool, and counts what comes of them.

    Per step: `schedule`, then for each chunk that was computed `advance`, and for each token that came of one `token`.
    """

    def __init__(self, pool: BlockPool, block_size: int, max_tokens: int, max_sequences: int) -> None:
        self.pool = pool
        self.waiting: deque[S] = deque()
        self.running: list[S] = []  # oldest first
        self._sequences: dict[str, S] = {}
        self._displaced: list[Displaced[S]] = []  # since the last plan
        self._block_size = block_size
        self._max_tokens = max_tokens
        self._max_sequences = max_sequences
        self._preemptions = 0
        self._prompt_tokens = 0
        self._output_tokens = 0
        self._cached_tokens = 0

    def add(self, sequence: S) -> None:
        """Queue it behind all that wait. Raises EAServeError if there is one with its id already."""
        if sequence.id in self._sequences:
            raise EAServeError(f"Sequence {sequence.id!r} is in the engine already; each needs an id of its own.")
        self._sequences[sequence.id] = sequence
        self.waiting.append(sequence)

    def remove(self, sequence_id: str) -> None:
        """Forget a sequence, and take its blocks back; unknown ids are ignored."""
        sequence = self._sequences.pop(sequence_id, None)
        if sequence is None:
            return
        self.pool.give_back(sequence.blocks)
        sequence.blocks = []
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)

    def has_work(self) -> bool:
        return bool(self._sequences)

    def schedule(self, now: float) -> Plan[S]:
        """The next step, which begins `now`; each of its chunks has its blocks.

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
        chunks += self._admit(budget, now)
        displaced, self._displaced = self._displaced, []
        return Plan(chunks, displaced)

    def advance(self, chunk: Chunk[S]) -> None:
        """The chunk is computed: its keys and values are in the sequence's blocks."""
        sequence = chunk.sequence
        self._prompt_tokens += max(0, min(chunk.end, sequence.prompt_length) - chunk.start)
        self._name_blocks(chunk)
        sequence.computed = chunk.end

    def _name_blocks(self, chunk: Chunk[S]) -> None:
        """Those that the chunk fills can be shared from now on."""
        first, last, prefix = chunk.start // self._block_size, chunk.end // self._block_size, chunk.sequence.prefix
        if prefix is not None and first < last:
            for block, key in zip(chunk.sequence.blocks[first:last], prefix.first(last)[first:], strict=False):
                self.pool.name(block, key)

    def spoil(self, sequence: S) -> None:
        """What was computed for it is not to be trusted: nobody shares it from now on."""
        self.pool.disown(sequence.blocks)

    def token(self, sequence: S, now: float) -> PrefillTimes | None:
        """A token of the sequence comes out `now`. With the first of this engine, where the time until then went;
        transfer is the worker's to know."""
        self._output_tokens += 1
        if sequence.reported:
            return None
        sequence.reported = True
        began = sequence.first_scheduled
        assert began is not None, "a token came of a sequence that was never scheduled"
        cached = 0 if sequence.imported else min(sequence.cached, sequence.prompt_length)
        return PrefillTimes(queue=began - sequence.added, transfer=0.0, prefill=now - began, cached=cached)

    def stats(self) -> EngineStats:
        """May be called from another thread: reads what single assignments keep whole."""
        sequences = list(self._sequences.values())
        return EngineStats(
            running=len(self.running),
            waiting=len(self.waiting),
            kv_blocks_total=self.pool.total,
            kv_blocks_used=self.pool.used,
            preemptions=self._preemptions,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            cached_tokens=self._cached_tokens,
            pending_tokens=sum(one.uncomputed for one in sequences if one.uncomputed > 1 or not one.computed),
        )

    def _admit(self, budget: int, now: float) -> list[Chunk[S]]:
        """New sequences while budget, places and blocks last; none overtakes another, and none displaces another.

        A sequence waits until the pool has room for all it has to compute: one that was started without would soon
        be displaced again, its work lost. So what was preempted in this very step never comes straight back. What the
        pool can hold when empty was checked when it was added.
        """
        chunks: list[Chunk[S]] = []
        while self.waiting and budget > 0 and len(self.running) < self._max_sequences:
            sequence = self.waiting[0]
            if not self._fits_behind_cached(sequence):
                break
            count = min(budget, sequence.uncomputed)
            self._extend(sequence, count)
            self.running.append(self.waiting.popleft())
            if sequence.first_scheduled is None:
                sequence.first_scheduled, sequence.cached = now, sequence.computed
            chunks.append(Chunk(sequence, count))
            budget -= count
        return chunks

    def _fits_behind_cached(self, sequence: S) -> bool:
        """Whether there is room for all it has to compute; it then has the blocks of its beginning that are in the pool
        already. Never all of them: a token comes out of a sequence's last position only."""
        prefix = None if sequence.computed else sequence.prefix
        shared = self.pool.share(prefix.first((sequence.uncomputed - 1) // self._block_size)) if prefix else []
        if self._needed(sequence, sequence.uncomputed) - len(shared) > self.pool.free:
            self.pool.give_back(shared)
            return False
        sequence.blocks += shared
        sequence.computed += len(shared) * self._block_size
        self._cached_tokens += len(shared) * self._block_size
        return True

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
        self._preemptions += 1
        self.running.remove(sequence)
        if sequence.imported:
            self._displaced.append(Displaced(sequence, sequence.blocks))
        else:
            sequence.computed = 0
        self.pool.give_back(sequence.blocks)
        sequence.blocks = []
        self.waiting.appendleft(sequence)
