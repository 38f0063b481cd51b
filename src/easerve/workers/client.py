"""A worker as the pipeline sees it: encode and generate stages over the hub.

Answers are matched by batch number and sequence id. When the worker is lost, everything outstanding on it ends in
WorkerLost, and what it still answers is released.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from easerve.errors import EAServeError, WorkerLost
from easerve.pipeline.stages import EncodedBatch, Prefilled, SequenceFailed, SequenceJob, Sink
from easerve.request import EmbeddingRef, MediaItem, TensorRef, TokenOutput
from easerve.transfer.ledger import Ledger
from easerve.workers.messages import (
    CancelSequence,
    EncodeBatch,
    Encoded,
    Failure,
    FromWorker,
    HandOver,
    Heartbeat,
    Message,
    PictureLoaded,
    SequenceFailure,
    StartSequence,
    Tokens,
)
from easerve.workers.picture_line import PictureLine


class WorkerClient:
    """Implements EncodeStage and GenerateStage for one worker process."""

    def __init__(self, name: str, stages: Sequence[str], send: Callable[[Message], None], ledger: Ledger) -> None:
        self.name = name
        self.stages = tuple(stages)
        self.decodes = "decode" in stages
        self.pictures = PictureLine(send, ledger)
        self.last_heartbeat: Heartbeat | None = None
        self._send = send
        self._ledger = ledger
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
        self._send(StartSequence(job))

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
            case HandOver(sequence_id=sequence_id, kv=kv):
                self._ledger.adopt(kv.tensor)
                if (sink := self._sinks.pop(sequence_id, None)) is not None:
                    sink(Prefilled(sequence_id, kv))
                else:
                    self._ledger.release(kv.tensor)
            case SequenceFailure(sequence_id=sequence_id, failure=failure):
                if (sink := self._sinks.pop(sequence_id, None)) is not None:
                    sink(SequenceFailed(sequence_id, failure.error()))
            case PictureLoaded():
                self.pictures.handle(message)
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
        self.pictures.lose(lost)

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
            result.error() if isinstance(result, Failure) else result for result in message.results
        ]
        made = [ref for result in results if isinstance(result, EmbeddingRef) for ref in result.tensors.values()]
        self._adopt(made)
        answer = self._batches.pop(message.batch, None)
        if answer is not None and not answer.done():
            answer.set_result(EncodedBatch(results, message.seconds))
        else:
            for ref in made:
                self._ledger.release(ref)

    def _adopt(self, refs: Sequence[TensorRef]) -> None:
        for ref in refs:
            self._ledger.adopt(ref)
