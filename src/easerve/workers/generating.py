"""The generate desk: sequences in, tokens out, and KV where prefill and decode are apart."""

from __future__ import annotations

import time

from msgspec.structs import replace

from easerve.engine.base import LanguageModel, NewSequence, Prefilled, SequenceFailed
from easerve.errors import TransferError, Unavailable
from easerve.pipeline.stages import SequenceJob
from easerve.request import TokenOutput
from easerve.workers.messages import CancelSequence, HandOver, Heartbeat, SequenceFailure, StartSequence, Tokens
from easerve.workers.shelf import Shelf
from easerve.workers.stage import Send, failure


class GenerateDesk:
    """Implements `Desk` over a language model."""

    kinds = (StartSequence, CancelSequence)

    def __init__(self, language_model: LanguageModel, shelf: Shelf, send: Send) -> None:
        self._language_model = language_model
        self._shelf = shelf
        self._send = send
        self._transfer_seconds: dict[str, float] = {}
        self._seconds = 0.0

    def take(self, message: StartSequence | CancelSequence) -> None:
        if isinstance(message, StartSequence):
            self._start(message.job)
        else:
            self._language_model.abort(message.sequence_id)
            self._transfer_seconds.pop(message.sequence_id, None)

    def has_work(self) -> bool:
        return self._language_model.has_work()

    def work(self) -> None:
        started = time.monotonic()
        outputs: list[TokenOutput] = []
        ended: list[SequenceFailed | Prefilled] = []
        for event in self._language_model.step():
            if isinstance(event, TokenOutput):
                outputs.append(event if event.times is None else self._with_transfer(event))
            else:
                ended.append(event)
        if outputs:
            self._send(Tokens(outputs))
        for event in ended:
            self._end(event)
        self._seconds += time.monotonic() - started

    def report(self, beat: Heartbeat) -> Heartbeat:
        stats = self._language_model.stats()
        return replace(
            beat,
            generate_seconds=self._seconds,
            sequences_running=stats.running,
            sequences_waiting=stats.waiting,
            kv_blocks_total=stats.kv_blocks_total,
            kv_blocks_used=stats.kv_blocks_used,
            preemptions=stats.preemptions,
            prompt_tokens=stats.prompt_tokens,
            output_tokens=stats.output_tokens,
            cached_tokens=stats.cached_tokens,
        )

    def _start(self, job: SequenceJob) -> None:
        started = time.monotonic()
        try:
            sequence = NewSequence(
                job.sequence_id,
                list(job.prompt),
                job.sampling,
                media=[(item.offset, self._shelf.open(item, ref)) for item, ref in job.media],
                produced=list(job.produced),
                kv=None if job.kv is None else self._shelf.open_kv(job.kv),
                stop_after="prefill" if job.hand_over else "decode",
            )
            self._language_model.add(sequence)
        except Exception as error:
            self._fail(job.sequence_id, error)
        else:
            self._transfer_seconds[job.sequence_id] = time.monotonic() - started

    def _end(self, event: SequenceFailed | Prefilled) -> None:
        if isinstance(event, SequenceFailed):
            self._fail(event.sequence_id, event.error)
            return
        try:
            self._send(HandOver(event.sequence_id, self._shelf.publish_kv(event.kv)))
        except TransferError as error:  # the embeddings are good; there is no room for what was made of them
            self._fail(event.sequence_id, Unavailable(error.message))
        except Exception as error:
            self._fail(event.sequence_id, error)

    def _with_transfer(self, output: TokenOutput) -> TokenOutput:
        seconds = self._transfer_seconds.pop(output.sequence_id, 0.0)
        assert output.times is not None
        return replace(output, times=replace(output.times, transfer=seconds))

    def _fail(self, sequence_id: str, error: Exception) -> None:
        self._transfer_seconds.pop(sequence_id, None)
        self._send(SequenceFailure(sequence_id, failure(error, f"sequence {sequence_id}")))
