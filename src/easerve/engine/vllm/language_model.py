"""vLLM behind the `LanguageModel` protocol: its scheduler, KV pool and kernels; our embeddings, tokens and events."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from vllm.exceptions import VLLMClientError
from vllm.v1.engine import EngineCoreOutput, FinishReason

from easerve.engine.base import EngineStats, Event, NewSequence, Prefilled, SequenceFailed
from easerve.engine.torch.admission import check
from easerve.engine.vllm.core import Core
from easerve.engine.vllm.media import Arrangement, engine_input
from easerve.engine.vllm.progress import Progress, note_schedule, preemptions, token_outputs
from easerve.engine.vllm.quarantine import Quarantine
from easerve.engine.vllm.sampling import sampling_params
from easerve.errors import BadRequest, EAServeError
from easerve.models.base import KVShape

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shape:
    """Implements `ModelShape`."""

    kv: KVShape
    vocab_size: int
    width: int
    eos_token_ids: tuple[int, ...]


class VllmLanguageModel:
    """Implements `LanguageModel`. vLLM has those in `_inside`; after a step that raised, others are in quarantine."""

    def __init__(self, core: Core, shape: Shape, arrange: Arrangement) -> None:
        self._core = core
        self._connector = core.connector
        self._shape = shape
        self._arrange = arrange
        self._numbers = itertools.count()
        self._sequences: dict[str, Progress] = {}
        self._inside: dict[str, Progress] = {}  # by the request's id
        self._quarantine = Quarantine()
        self._preemptions = 0
        self._cached_tokens = 0
        self._prompt_tokens = 0
        self._output_tokens = 0
        self.max_tokens_per_sequence = core.max_model_len

    def add(self, sequence: NewSequence) -> None:
        if sequence.id in self._sequences:
            raise EAServeError(f"Sequence {sequence.id!r} is in the engine already; each needs an id of its own.")
        check(sequence, self._shape, self.max_tokens_per_sequence)
        progress = Progress(self._with_own_kv(sequence), next(self._numbers))
        try:
            request = self._request(progress)
        except (ValueError, VLLMClientError) as error:  # vLLM's own checks
            raise BadRequest(str(error)) from error
        if self._quarantine.active:
            self._quarantine.wait(progress)
        else:
            self._enter(progress, request)
        self._sequences[sequence.id] = progress

    def abort(self, sequence_id: str) -> None:
        progress = self._sequences.pop(sequence_id, None)
        if progress is not None:
            self._quarantine.forget(progress)
            if self._inside.pop(progress.request_id, None) is not None:
                self._core.abort([progress.request_id])

    def has_work(self) -> bool:
        return bool(self._sequences)

    def step(self) -> list[Event]:
        for progress in self._quarantine.next():
            self._enter(progress, self._request(progress))
        try:
            outputs = self._core.step()
        except torch.AcceleratorError:
            raise  # the device is lost to this process: a new worker does the work again
        except Exception as error:
            return self._after_failure(error)
        return [event for output in outputs for event in self._report(output)]

    def stats(self) -> EngineStats:
        """May be called from another thread."""
        (running, waiting), (total, used) = self._core.counts(), self._core.blocks()
        pending = [self._core.uncomputed(one.request_id) for one in list(self._inside.values()) if not one.tokens]
        return EngineStats(
            running=running,
            waiting=waiting + len(self._quarantine),
            kv_blocks_total=total,
            kv_blocks_used=used,
            preemptions=self._preemptions,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            cached_tokens=self._cached_tokens,
            pending_tokens=sum(pending),
        )

    def _with_own_kv(self, sequence: NewSequence) -> NewSequence:
        """With a copy in the host's memory: whoever sent it takes the buffer back, and a preemption needs it again."""
        if self._connector is None and (sequence.kv is not None or sequence.stop_after == "prefill"):
            raise EAServeError("This vLLM worker was started for prefill and decode together; it hands nothing over.")
        if sequence.kv is None:
            return sequence
        return replace(sequence, kv=replace(sequence.kv, keys_values=sequence.kv.keys_values.to("cpu", copy=True)))

    def _request(self, progress: Progress) -> Any:
        sequence = progress.rest()
        params = sampling_params(sequence, self._shape.eos_token_ids)
        self._core.settle_draws(params, sequence)
        return self._core.request(progress.request_id, engine_input(sequence, self._arrange), params)

    def _enter(self, progress: Progress, request: Any) -> None:
        name = progress.request_id
        if progress.sequence.kv is not None:
            self._connector.bring(name, progress.sequence.kv)
        if progress.sequence.stop_after == "prefill":
            self._connector.want(name)
        self._core.add(request)
        self._inside[name] = progress

    def _report(self, output: EngineCoreOutput) -> Iterator[Event]:
        progress = self._inside.get(output.request_id)
        if progress is None:
            return  # aborted while it was computed
        self._count(progress, output)
        yield from token_outputs(progress, output, self.max_tokens_per_sequence)
        if output.finish_reason is not None:
            yield from self._end(progress, output.finish_reason)
        elif progress is self._quarantine.tried and output.new_token_ids:
            self._core.abort([progress.request_id])
            self._quarantine.tried = None
            self._quarantine.wait(self._taken_out(progress))

    def _count(self, progress: Progress, output: EngineCoreOutput) -> None:
        note_schedule(progress, output)
        self._preemptions += preemptions(output)
        self._output_tokens += len(output.new_token_ids)
        if output.prefill_stats is not None:
            self._prompt_tokens += output.prefill_stats.num_computed_tokens
            progress.cached = output.prefill_stats.num_local_cached_tokens
            self._cached_tokens += progress.cached

    def _end(self, progress: Progress, reason: FinishReason) -> Iterator[Event]:
        name, sequence = progress.request_id, progress.sequence
        self._forget(progress)
        if reason not in (FinishReason.STOP, FinishReason.LENGTH):
            yield SequenceFailed(sequence.id, EAServeError(f"vLLM ended the sequence: {reason}"))
        elif sequence.stop_after == "prefill":
            kv = self._connector.take(name)
            if kv is not None and progress.ends_early(self.max_tokens_per_sequence):
                yield Prefilled(sequence.id, kv)

    def _forget(self, progress: Progress) -> None:
        del self._sequences[progress.sequence.id]
        self._inside.pop(progress.request_id, None)
        self._quarantine.forget(progress)

    def _taken_out(self, progress: Progress) -> Progress:
        """Ready to enter vLLM again."""
        self._inside.pop(progress.request_id, None)
        progress.tries += 1
        return progress

    def _after_failure(self, error: Exception) -> list[Event]:
        """Empty vLLM. A sequence that was alone in the step is the cause; of several, each is tried alone."""
        self._core.clear(list(self._inside))
        inside = [self._taken_out(progress) for progress in list(self._inside.values())]
        if len(inside) != 1:
            logger.warning("a step of %d sequences failed (%s); trying them one by one", len(inside), error)
            self._quarantine.suspect(inside)
            return []
        (cause,) = inside
        self._forget(cause)
        logger.error("sequence %s failed", cause.sequence.id, exc_info=error)
        told = f"computing the sequence failed in the engine ({type(error).__name__}); see the worker's log"
        return [SequenceFailed(cause.sequence.id, EAServeError(told))]
