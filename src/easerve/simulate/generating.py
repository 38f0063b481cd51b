"""The generate desk in virtual time: what a worker's desk does around its engine, around the timed engine."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from easerve.costs.base import ChunkSize
from easerve.engine.timed.batching import ContinuousBatching, StepEnd
from easerve.engine.timed.sequence import TimedSequence
from easerve.errors import EAServeError, WorkerLost
from easerve.pipeline.stages import Prefilled, SequenceEvent, SequenceFailed, SequenceJob, Sink
from easerve.request import KVRef, TensorRef, TokenOutput
from easerve.simulate.desk import Desk, Station


class GenerateDesk(Desk):
    """One engine step after the other. What a sequence brings along arrives over the worker's link first, one after
    the other, while steps go on; sequences come and go between steps."""

    stage = "prefill/decode"

    def __init__(self, station: Station, batching: ContinuousBatching) -> None:
        super().__init__(station)
        self.batching = batching
        self._sinks: dict[str, Sink] = {}
        self._inbox: deque[Callable[[], None]] = deque()
        self._link_free = 0.0  # when the last transfer so far ends

    def start(self, job: SequenceJob, sink: Sink) -> None:
        self._sinks[job.sequence_id] = sink
        asked = asyncio.get_running_loop().time()
        seconds = sum(self.station.link.seconds(ref.nbytes) for ref in self._from_elsewhere(job))
        if seconds == 0:
            self._arrived(job, sink, asked)
            return
        self._link_free = max(asked, self._link_free) + seconds
        asyncio.get_running_loop().call_at(self._link_free, self._arrived, job, sink, asked)

    def cancel(self, sequence_id: str) -> None:
        if self._sinks.pop(sequence_id, None) is not None:
            self._hand_in(lambda: self.batching.abort(sequence_id))

    def has_work(self) -> bool:
        return bool(self._inbox) or self.batching.has_work()

    async def work(self) -> None:
        while self._inbox:
            self._inbox.popleft()()
        if self.batching.has_work():
            sizes = [ChunkSize(chunk.count, chunk.start) for chunk in self.batching.begin(self._now())]
            costs, around = self.station.costs, self.station.around
            kind = "prefill" if any(size.new > 1 for size in sizes) else "decode"
            await self.spend(lambda share, beside: around + costs.step(sizes, share, beside), kind)
            self._report(self.batching.end(self._now()))

    def lose(self, lost: WorkerLost) -> None:
        sinks, self._sinks = self._sinks, {}
        for sequence_id, sink in sinks.items():
            sink(SequenceFailed(sequence_id, lost))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _from_elsewhere(self, job: SequenceJob) -> list[TensorRef]:
        if job.kv is not None:
            return [job.kv.tensor]
        made_elsewhere = [ref for _, ref in job.media if ref.worker != self.station.worker]
        return [tensor for ref in made_elsewhere for tensor in ref.tensors.values()]

    def _arrived(self, job: SequenceJob, sink: Sink, asked: float) -> None:
        """Everything that the sequence needs is here, unless it has gone meanwhile."""
        if self._sinks.get(job.sequence_id) is not sink:
            return
        try:
            for ref in self._from_elsewhere(job):
                self.station.memory.check(ref)
        except EAServeError as error:
            self._end(SequenceFailed(job.sequence_id, error))
            return
        now = self._now()
        self._hand_in(lambda: self._add(job, added=now, transfer=now - asked))

    def _add(self, job: SequenceJob, added: float, transfer: float) -> None:
        if job.sequence_id not in self._sinks:
            return
        sequence = TimedSequence(
            id=job.sequence_id,
            prompt_length=len(job.prompt),
            length=len(job.prompt) + len(job.produced),
            max_tokens=job.sampling.max_tokens,
            stop_after="prefill" if job.hand_over else "decode",
            imported=job.kv is not None,
            computed=0 if job.kv is None else job.kv.tokens,
            transfer=transfer,
            added=added,
        )
        try:
            self.batching.add(sequence)
        except EAServeError as error:
            self._end(SequenceFailed(job.sequence_id, error))

    def _hand_in(self, change: Callable[[], None]) -> None:
        self._inbox.append(change)
        self.station.woken.set()

    def _report(self, step: StepEnd) -> None:
        for output in step.outputs:
            sink = self._sinks.get(output.sequence_id)
            if sink is None:
                continue  # cancelled during the step
            if output.finish_reason is not None:
                del self._sinks[output.sequence_id]
            sink(self._named(output))
        for sequence in step.prefilled:
            if sequence.id in self._sinks:
                self._end(Prefilled(sequence.id, self._publish(sequence)))

    def _publish(self, sequence: TimedSequence) -> KVRef:
        station = self.station
        ref = station.memory.put(station.worker, sequence.computed * station.costs.kv_bytes_per_token)
        return KVRef(tokens=sequence.computed, next_position=sequence.computed, tensor=ref)

    def _named(self, output: TokenOutput) -> TokenOutput:
        if output.times is None:
            return output
        return replace(output, times=replace(output.times, worker=self.station.worker))

    def _end(self, event: SequenceEvent) -> None:
        self._sinks.pop(event.sequence_id)(event)
