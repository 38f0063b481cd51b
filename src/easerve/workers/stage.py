"""The loop of a worker's stage thread: encode batches and engine steps, one after the other.

A worker that only encodes, one that only generates and one that does both (the aggregated baseline) run the same
loop over the engines they were given.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

import msgspec

from easerve.engine.base import Encoder, LanguageModel, NewSequence, SequenceFailed
from easerve.errors import EAServeError, TransferError
from easerve.models.base import Embedding
from easerve.request import EmbeddingRef, MediaItem, TokenOutput
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.base import Transfer
from easerve.transfer.tensors import open_tensor, put_tensor
from easerve.workers.messages import (
    CancelSequence,
    EncodeBatch,
    Encoded,
    Failure,
    Heartbeat,
    Message,
    SequenceFailure,
    StartSequence,
    Stop,
    Tokens,
    ToWorker,
)

logger = logging.getLogger(__name__)


class StageLoop:
    """Runs in one thread; messages come in through `inbox`, answers leave through `send`."""

    def __init__(
        self,
        *,
        inbox: SimpleQueue[ToWorker],
        send: Callable[[Message], None],
        transfer: Transfer,
        device: str,
        encoder: Encoder | None,
        language_model: LanguageModel | None,
    ) -> None:
        self._inbox = inbox
        self._send = send
        self._transfer = transfer
        self._pictures = ArrayStore(transfer)
        self._device = device
        self._encoder = encoder
        self._language_model = language_model
        self._batches: list[EncodeBatch] = []
        self._transfer_seconds: dict[str, float] = {}
        self._busy_seconds = 0.0
        self._items_encoded = 0
        self._stopped = False

    def run(self) -> None:
        """Until a Stop message."""
        while not self._stopped:
            self._receive()
            started = time.monotonic()
            if self._batches:
                self._encode(self._batches.pop(0))
            if self._language_model is not None and self._language_model.has_work():
                self._step(self._language_model)
            self._busy_seconds += time.monotonic() - started

    def heartbeat(self, resident_bytes: int) -> Heartbeat:
        """Called from another thread: reads counters only."""
        beat = Heartbeat(resident_bytes, self._busy_seconds, items_encoded=self._items_encoded)
        if self._language_model is None:
            return beat
        stats = self._language_model.stats()
        return msgspec.structs.replace(
            beat,
            sequences_running=stats.running,
            sequences_waiting=stats.waiting,
            kv_blocks_total=stats.kv_blocks_total,
            kv_blocks_used=stats.kv_blocks_used,
            preemptions=stats.preemptions,
            prompt_tokens=stats.prompt_tokens,
            output_tokens=stats.output_tokens,
        )

    def _receive(self) -> None:
        """Take in all that has arrived; wait for something only if there is nothing to do."""
        idle = not self._batches and not (self._language_model is not None and self._language_model.has_work())
        while not self._stopped:
            try:
                message = self._inbox.get(block=idle)
            except Empty:
                return
            idle = False
            self._handle(message)

    def _handle(self, message: ToWorker) -> None:
        match message:
            case EncodeBatch():
                self._batches.append(message)
            case StartSequence():
                self._start(message)
            case CancelSequence(sequence_id=sequence_id):
                if self._language_model is not None:
                    self._language_model.abort(sequence_id)
                self._transfer_seconds.pop(sequence_id, None)
            case Stop():
                self._stopped = True

    # Encode

    def _encode(self, batch: EncodeBatch) -> None:
        started = time.monotonic()
        results = self._encode_together(batch.items)
        self._items_encoded += len(results)
        self._send(Encoded(batch.batch, results, time.monotonic() - started))

    def _encode_together(self, items: list[MediaItem]) -> list[EmbeddingRef | Failure]:
        """All in one forward; if that fails, each by itself, so that one bad item fails alone."""
        try:
            made = self._forward(items)
        except Exception as error:
            if len(items) == 1:
                return [_failure(error, f"encoding item {items[0].key[:12]}")]
            return [self._encode_together([item])[0] for item in items]
        return [self._publish(item, embedding) for item, embedding in zip(items, made, strict=True)]

    def _forward(self, items: list[MediaItem]) -> list[Embedding]:
        if self._encoder is None:
            raise EAServeError("this worker has no encoder")
        return self._encoder.encode([self._pictures.open(item.pixels) for item in items])

    def _publish(self, item: MediaItem, made: Embedding) -> EmbeddingRef | Failure:
        try:
            tensors = {"values": put_tensor(self._transfer, made.values)}
            if made.deepstack is not None:
                tensors["deepstack"] = put_tensor(self._transfer, made.deepstack)
        except TransferError as error:
            return _failure(error, "publishing an embedding")
        return EmbeddingRef(key=item.key, tokens=made.values.shape[0], grid=made.grid, tensors=tensors)

    # Generate

    def _start(self, message: StartSequence) -> None:
        if self._language_model is None:
            self._fail(message.sequence_id, EAServeError("this worker has no language model"))
            return
        started = time.monotonic()
        try:
            media = [(item.offset, self._open(item, ref)) for item, ref in message.media]
            sequence = NewSequence(message.sequence_id, message.prompt, message.sampling, media)
            self._language_model.add(sequence)
        except Exception as error:
            self._fail(message.sequence_id, error)
        else:
            self._transfer_seconds[message.sequence_id] = time.monotonic() - started

    def _open(self, item: MediaItem, ref: EmbeddingRef) -> Embedding:
        if ref.key != item.key or ref.tokens != item.tokens:
            raise TransferError(
                f"item {item.key[:12]}, {item.tokens} tokens, came with embedding {ref.key[:12]}, {ref.tokens} tokens"
            )
        tensors = {name: open_tensor(self._transfer, one).to(self._device) for name, one in ref.tensors.items()}
        if tensors["values"].shape[0] != item.tokens:
            raise TransferError(f"the embedding of item {item.key[:12]} is not {item.tokens} tokens long")
        return Embedding(tensors["values"], ref.grid, tensors.get("deepstack"))

    def _step(self, language_model: LanguageModel) -> None:
        outputs: list[TokenOutput] = []
        for event in language_model.step():
            if isinstance(event, SequenceFailed):
                self._fail(event.sequence_id, event.error)
            else:
                outputs.append(self._with_transfer(event))
        if outputs:
            self._send(Tokens(outputs))

    def _with_transfer(self, output: TokenOutput) -> TokenOutput:
        if output.times is None:
            return output
        seconds = self._transfer_seconds.pop(output.sequence_id, 0.0)
        return msgspec.structs.replace(output, times=msgspec.structs.replace(output.times, transfer=seconds))

    def _fail(self, sequence_id: str, error: Exception) -> None:
        self._transfer_seconds.pop(sequence_id, None)
        self._send(SequenceFailure(sequence_id, _failure(error, f"sequence {sequence_id}")))


def _failure(error: Exception, what: str) -> Failure:
    """Our own errors keep their words; anything else is ours to look into, and named by kind only."""
    if isinstance(error, EAServeError):
        return Failure(type(error).__name__, error.message)
    logger.exception("unexpected error in %s", what)
    return Failure("EAServeError", f"{what} failed in the engine ({type(error).__name__}); see the server's log")
