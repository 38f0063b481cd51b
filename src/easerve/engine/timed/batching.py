"""Continuous batching without computing: the rules of the torch engine, step by step, for whoever keeps the time."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from easerve.costs.base import StageCosts
from easerve.engine.base import EngineStats
from easerve.engine.scheduling import BlockPool, Chunk, Scheduler, check_length
from easerve.engine.timed.sequence import TimedSequence
from easerve.engine.torch.options import EngineOptions
from easerve.errors import EAServeError
from easerve.request import FinishReason, TokenOutput


@dataclass(frozen=True)
class StepEnd:
    """What a step brought: tokens, and the sequences that were to stop after prefill and have."""

    outputs: list[TokenOutput] = field(default_factory=list)
    prefilled: list[TimedSequence] = field(default_factory=list)


class ContinuousBatching:
    """`begin` plans a step, `end` reports it; in between passes the time that a cost model gives its chunks.

    Sequences come and go between steps only. A sequence's n-th output token has the id n - 1, and none ends before its
    `max_tokens`.
    """

    def __init__(self, options: EngineOptions, kv_tokens: int) -> None:
        """The KV pool holds `kv_tokens`."""
        blocks = kv_tokens // options.block_size
        self._scheduler = Scheduler[TimedSequence](
            BlockPool(blocks), options.block_size, options.max_batched_tokens, options.max_sequences
        )
        fitting = blocks * options.block_size
        self.max_tokens_per_sequence = min(options.max_model_len or fitting, fitting)
        self._chunks: list[Chunk[TimedSequence]] = []

    @classmethod
    def sized(cls, options: EngineOptions, costs: StageCosts) -> ContinuousBatching:
        """With the KV pool that the options ask for, or else the one that fits the device."""
        asked = options.kv_cache_bytes
        return cls(options, costs.kv_tokens if asked is None else asked // costs.kv_bytes_per_token)

    def add(self, sequence: TimedSequence) -> None:
        """Raises BadRequest if it can never fit, EAServeError if it is here already or has nothing left to generate."""
        check_length(sequence.prompt_length, sequence.produced, self.max_tokens_per_sequence)
        if sequence.produced and sequence.produced >= sequence.max_tokens:
            raise EAServeError(f"Sequence {sequence.id!r} has all its {sequence.max_tokens} tokens already.")
        self._scheduler.add(sequence)

    def abort(self, sequence_id: str) -> None:
        """Forget a sequence and free its KV; unknown ids are ignored."""
        self._scheduler.remove(sequence_id)

    def has_work(self) -> bool:
        return self._scheduler.has_work()

    def begin(self, now: float) -> list[Chunk[TimedSequence]]:
        """What the next step computes."""
        self._chunks = self._scheduler.schedule(now).chunks
        return self._chunks

    def end(self, now: float) -> StepEnd:
        """The step that began last is over."""
        step = StepEnd()
        for chunk in self._chunks:
            samples = chunk.samples
            self._scheduler.advance(chunk)
            if samples:
                self._sample(chunk.sequence, step, now)
        return step

    def _sample(self, sequence: TimedSequence, step: StepEnd, now: float) -> None:
        token = sequence.produced
        sequence.length += 1
        reason = self._finish_reason(sequence)
        times = self._scheduler.token(sequence, now)
        if times is not None:
            times = replace(times, transfer=sequence.transfer)
        step.outputs.append(TokenOutput(sequence_id=sequence.id, token_id=token, finish_reason=reason, times=times))
        if reason is not None:
            self.abort(sequence.id)
        elif sequence.stop_after == "prefill":
            self.abort(sequence.id)
            step.prefilled.append(sequence)

    def _finish_reason(self, sequence: TimedSequence) -> FinishReason | None:
        full = sequence.length >= self.max_tokens_per_sequence
        return "length" if full or sequence.produced >= sequence.max_tokens else None

    def stats(self) -> EngineStats:
        return self._scheduler.stats()
