"""The torch engine: continuous batching over a transformers language model, and the encoder beside it.

The reference for correctness, on CPU and CUDA (the CUDA path has not been run on a GPU yet). How a step goes is
told in docs/engine.md; here is what happens to sequences, the moves themselves have modules of their own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence as Many

import numpy as np
import torch

from easerve.engine.base import EngineStats, Event, NewSequence, Prefilled, SequenceFailed
from easerve.engine.scheduling import BlockPool, Chunk, Displaced, Scheduler
from easerve.engine.torch.admission import check
from easerve.engine.torch.batch import in_packed_order
from easerve.engine.torch.forward import Sampled, compute
from easerve.engine.torch.handover import copy_out, set_aside, write_in
from easerve.engine.torch.kv_cache import KVCache, blocks_for
from easerve.engine.torch.options import EngineOptions
from easerve.engine.torch.sequence import Sequence
from easerve.engine.torch.stopping import finish_reason
from easerve.errors import EAServeError
from easerve.models.base import Embedding, EncoderPart, LanguagePart
from easerve.policy.prefix import BlockKeys, Medium
from easerve.request import TokenOutput

logger = logging.getLogger(__name__)


class TorchEncoder:
    """An encoder part as an engine."""

    def __init__(self, part: EncoderPart) -> None:
        self._part = part

    def encode(self, pictures: Many[np.ndarray]) -> list[Embedding]:
        return self._part.encode(pictures)


class TorchLanguageModel:
    """A language part behind the `LanguageModel` protocol.

    Example: `model.add(NewSequence("a", prompt, SamplingParams()))`, then `model.step()` while `model.has_work()`.
    """

    def __init__(self, part: LanguagePart, options: EngineOptions) -> None:
        context = min(options.max_model_len or part.max_positions, part.max_positions)
        blocks = blocks_for(part.kv, options, context, part.device)
        self._part = part
        self._options = options
        self._cache = KVCache(part.kv, blocks, options.block_size, part.device)
        self._scheduler = Scheduler[Sequence](
            BlockPool(blocks), options.block_size, options.max_batched_tokens, options.max_sequences
        )
        self._eos = tuple(token for token in part.eos_token_ids if token < part.vocab_size)
        self.max_tokens_per_sequence = min(context, blocks * options.block_size)

    def add(self, sequence: NewSequence) -> None:
        spans = check(sequence, self._part, self.max_tokens_per_sequence)
        if sequence.kv is None:
            positions, following = self._part.positions(len(sequence.prompt), spans)
        else:  # the prompt's own are in the keys; only the number of rows is needed
            positions, _ = self._part.positions(0, [])
            following = sequence.kv.next_position - (sequence.kv.tokens - len(sequence.prompt))
        entered = Sequence.of(sequence, positions, following)
        if self._options.prefix_cache and not entered.imported:
            media = [Medium(offset, one.values.shape[0], one.key) for offset, one in sequence.media]
            entered.prefix = BlockKeys(entered.tokens, media, self._options.block_size)
        self._scheduler.add(entered)

    def abort(self, sequence_id: str) -> None:
        self._scheduler.remove(sequence_id)

    def has_work(self) -> bool:
        return self._scheduler.has_work()

    @torch.inference_mode()
    def step(self) -> list[TokenOutput | SequenceFailed | Prefilled]:
        plan = self._scheduler.schedule(time.monotonic())
        failed = [failure for one in plan.displaced for failure in self._set_aside(one)]
        return failed + self._compute(in_packed_order(plan.chunks))

    def stats(self) -> EngineStats:
        """May be called from another thread."""
        return self._scheduler.stats()

    def _compute(self, chunks: list[Chunk[Sequence]]) -> list[Event]:
        """All chunks in one forward; if that fails, each half by itself, so that what cannot be computed fails alone.

        Nothing advances before a forward and its sampling are done, so doing them again is safe.
        """
        if not chunks:
            return []
        try:
            for chunk in chunks:
                write_in(chunk.sequence, self._cache)
            sampled = compute(chunks, self._part, self._cache, self._eos)
        except Exception as error:
            if len(chunks) == 1:
                return [self._fail(chunks[0].sequence, error)]
            logger.warning("computing %d sequences failed (%s); trying halves", len(chunks), type(error).__name__)
        else:
            for chunk in chunks:
                self._scheduler.advance(chunk)
            now = time.monotonic()
            return [event for one in sampled for event in self._report(one, now)]
        half = len(chunks) // 2  # outside of the handler, which holds on to the failed forward's memory
        return self._compute(chunks[:half]) + self._compute(chunks[half:])

    def _report(self, sampled: Sampled, now: float) -> list[Event]:
        sequence, token = sampled.sequence, sampled.token
        if token is None:
            return [self._fail(sequence, EAServeError("the model's logits are not finite numbers"))]
        sequence.tokens.append(token)
        reason = finish_reason(sequence, self._eos, self.max_tokens_per_sequence)
        output = TokenOutput(
            sequence_id=sequence.id,
            token_id=token,
            finish_reason=reason,
            stop_token=token if reason == "stop" else None,
            logprobs=sampled.logprobs,
            times=self._scheduler.token(sequence, now),
        )
        if reason is not None:
            self.abort(sequence.id)
        elif sequence.stop_after == "prefill":
            return [output, self._hand_over(sequence)]
        return [output]

    def _hand_over(self, sequence: Sequence) -> Prefilled | SequenceFailed:
        try:
            kv = copy_out(sequence, sequence.blocks, self._cache)
        except Exception as error:
            return self._fail(sequence, error)
        self.abort(sequence.id)
        return Prefilled(sequence.id, kv)

    def _set_aside(self, displaced: Displaced[Sequence]) -> list[Event]:
        try:
            set_aside(displaced, self._cache)
        except Exception as error:
            return [self._fail(displaced.sequence, error)]
        return []

    def _fail(self, sequence: Sequence, error: Exception) -> SequenceFailed:
        """Forget the sequence. Our own errors keep their words; of any other only the kind is told."""
        self._scheduler.spoil(sequence)
        self.abort(sequence.id)
        if isinstance(error, EAServeError):
            return SequenceFailed(sequence.id, error)
        logger.error("sequence %s failed", sequence.id, exc_info=error)
        told = f"computing the sequence failed in the engine ({type(error).__name__}); see the worker's log"
        return SequenceFailed(sequence.id, EAServeError(told))
