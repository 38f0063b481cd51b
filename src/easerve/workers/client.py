"""A worker as the pipeline sees it: encode and generate stages over the hub.

Answers are matched by batch number and sequence id. When the worker is lost, everything outstanding on it ends in
WorkerLost, and what it still answers is released.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from easerve.errors import EAServeError, WorkerLost, by_name
from easerve.pipeline.stages import Buffers, EncodedBatch, SequenceFailed, SequenceJob, Sink
from easerve.request import EmbeddingRef, MediaItem, TokenOutput
from easerve.workers.messages import (
    CancelSequence,
    EncodeBatch,
    Encoded,
    Failure,
    FromWorker,
    Heartbeat,
    Message,
    SequenceFailure,
    StartSequence,
    Tokens,
)


class WorkerClient:
    """Implements EncodeStage and GenerateStage for one worker process."""

    def __init__(self, name: str, send: Callable[[Message], None], buffers: Buffers) -> None:
        self.name = name
        self.last_heartbeat: Heartbeat | None = None
        self._send = send
        self._buffers = buffers
        self._numbers = itertools.count()
        self._batches: dict[int, asyncio.Future[EncodedBatch]] = {}
        self._sinks: dict[str, Sink] = {}

    # The pipeline's side

    async def encode(self, items: Sequence[MediaItem]) -> EncodedBatch:
        number = next(self._numbers)
        answer: asyncio.Future[EncodedBatch] = asyncio.get_running_loop().create_future()
        self._batches[number] = answer
        self._send(EncodeBatch(number, list(items)))
        return await answer

    def start(self, job: SequenceJob, sink: Sink) -> None:
        self._sinks[job.sequence_id] = sink
        self._send(StartSequence(job.sequence_id, list(job.prompt), job.sampling, list(job.media)))

    def cancel(self, sequence_id: str) -> None:
        if self._sinks.pop(sequence_id, None) is not None:
            self._send(CancelSequence(sequence_id))

    @property
    def outstanding(self) -> int:
        """Batches and sequences sent and not answered."""
        return len(self._batches) + len(self._sinks)

    # The worker's side

    def handle(self, message: FromWorker) -> None:
        match message:
            case Tokens(outputs=outputs):
                for output in outputs:
                    self._token(output)
            case Encoded():
                self._encoded(message)
            case SequenceFailure(sequence_id=sequence_id, failure=failure):
                if (sink := self._sinks.pop(sequence_id, None)) is not None:
                    sink(SequenceFailed(sequence_id, _error(failure)))
            case Heartbeat():
                self.last_heartbeat = message
            case _:
                pass  # start-up messages: the supervisor reads those

    def lose(self, reason: str) -> None:
        """The worker is gone: end everything that waits for it."""
        lost = WorkerLost(f"worker {self.name} {reason}", retry_after=5)
        batches, self._batches = self._batches, {}
        sinks, self._sinks = self._sinks, {}
        for answer in batches.values():
            if not answer.done():
                answer.set_exception(lost)
        for sequence_id, sink in sinks.items():
            sink(SequenceFailed(sequence_id, lost))

    def _token(self, output: TokenOutput) -> None:
        sink = self._sinks.get(output.sequence_id)
        if sink is None:
            return  # cancelled while this was on its way
        if output.finish_reason is not None:
            del self._sinks[output.sequence_id]
        sink(self._named(output))

    def _named(self, output: TokenOutput) -> TokenOutput:
        if output.times is None:
            return output
        return replace(output, times=replace(output.times, worker=self.name))

    def _encoded(self, message: Encoded) -> None:
        results: list[EmbeddingRef | EAServeError] = [
            _error(result) if isinstance(result, Failure) else result for result in message.results
        ]
        answer = self._batches.pop(message.batch, None)
        if answer is not None and not answer.done():
            answer.set_result(EncodedBatch(results, message.seconds))
            return
        for result in results:
            if isinstance(result, EmbeddingRef):
                for ref in result.tensors.values():
                    self._buffers.release(ref)


def _error(failure: Failure) -> EAServeError:
    return by_name(failure.kind, failure.message)
