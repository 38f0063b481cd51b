"""The torch engine: continuous batching over a transformers language model, and the encoder beside it.

The reference for correctness, on CPU and CUDA (the CUDA path has not been run on a GPU yet). A step is four moves:
schedule, assemble, forward, sample; each has a module of its own.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Many

import numpy as np
import torch

from easerve.engine.base import EngineStats, NewSequence, SequenceFailed
from easerve.engine.torch import sampler
from easerve.engine.torch.admission import check
from easerve.engine.torch.batch import assemble, in_packed_order
from easerve.engine.torch.kv_cache import BlockPool, KVCache, blocks_for
from easerve.engine.torch.options import EngineOptions
from easerve.engine.torch.scheduler import Chunk, Scheduler
from easerve.engine.torch.sequence import Sequence
from easerve.errors import EAServeError
from easerve.models.base import Embedding, EncoderPart, LanguagePart
from easerve.request import FinishReason, PrefillTimes, TokenLogprobs, TokenOutput


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
        self._cache = KVCache(part.kv, blocks, options.block_size, part.device)
        self._scheduler = Scheduler(
            BlockPool(blocks), options.block_size, options.max_batched_tokens, options.max_sequences
        )
        self._eos = tuple(token for token in part.eos_token_ids if token < part.vocab_size)
        self._sequences: dict[str, Sequence] = {}
        self._prompt_tokens = 0
        self._output_tokens = 0
        self.max_tokens_per_sequence = min(context, blocks * options.block_size)

    def add(self, sequence: NewSequence) -> None:
        if sequence.id in self._sequences:
            raise EAServeError(f"Sequence {sequence.id!r} is in the engine already; each needs an id of its own.")
        spans = check(sequence, self._part, self.max_tokens_per_sequence)
        positions, following = self._part.positions(len(sequence.prompt), spans)
        made = Sequence.of(sequence, positions, following)
        self._sequences[made.id] = made
        self._scheduler.add(made)

    def abort(self, sequence_id: str) -> None:
        sequence = self._sequences.pop(sequence_id, None)
        if sequence is not None:
            self._scheduler.remove(sequence)

    def has_work(self) -> bool:
        return bool(self._sequences)

    @torch.inference_mode()
    def step(self) -> list[TokenOutput | SequenceFailed]:
        started = time.monotonic()
        chunks = in_packed_order(self._scheduler.schedule())
        if not chunks:
            return []
        for chunk in chunks:
            if chunk.sequence.first_scheduled is None:
                chunk.sequence.first_scheduled = started
        inputs = assemble(chunks, self._part, self._cache)
        hidden = self._part.forward(inputs.embeds, inputs.positions, deepstack=inputs.deepstack, paged=inputs.paged)
        sampling = [chunk.sequence for chunk in chunks if chunk.samples]
        self._advance(chunks)
        return self._sample(self._part.logits(hidden[inputs.sample_rows]), sampling) if sampling else []

    def stats(self) -> EngineStats:
        """May be called from another thread: reads what single assignments keep whole."""
        scheduler = self._scheduler
        uncomputed = [one.uncomputed for one in list(self._sequences.values()) if not one.decoding]
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_blocks_total=scheduler.pool.total,
            kv_blocks_used=scheduler.pool.used,
            preemptions=scheduler.preemptions,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            pending_tokens=sum(uncomputed),
        )

    def _advance(self, chunks: list[Chunk]) -> None:
        """Count what the forward has put into the pool."""
        for chunk in chunks:
            self._prompt_tokens += max(0, min(chunk.end, chunk.sequence.prompt_length) - chunk.start)
            chunk.sequence.computed = chunk.end

    def _sample(self, logits: torch.Tensor, sequences: list[Sequence]) -> list[TokenOutput | SequenceFailed]:
        outputs: list[TokenOutput | SequenceFailed] = []
        sound = torch.isfinite(logits).all(-1)
        if not bool(sound.all()):
            good = sound.tolist()
            outputs += [self._fail(one) for one, fine in zip(sequences, good, strict=True) if not fine]
            sequences = [one for one, fine in zip(sequences, good, strict=True) if fine]
            logits = logits[sound]
        tokens = sampler.sample(logits, sequences, self._eos)
        logprobs = sampler.logprobs(logits, sequences, tokens)
        return outputs + [self._emit(*each) for each in zip(sequences, tokens, logprobs, strict=True)]

    def _emit(self, sequence: Sequence, token: int, logprobs: TokenLogprobs | None) -> TokenOutput:
        sequence.tokens.append(token)
        self._output_tokens += 1
        reason = self._finished(sequence, token)
        if reason is not None:
            self.abort(sequence.id)
        return TokenOutput(
            sequence_id=sequence.id,
            token_id=token,
            finish_reason=reason,
            stop_token=token if reason == "stop" else None,
            logprobs=logprobs,
            times=_first_times(sequence),
        )

    def _finished(self, sequence: Sequence, token: int) -> FinishReason | None:
        params = sequence.sampling
        ends = token in params.stop_token_ids or (token in self._eos and not params.ignore_eos)
        if ends:  # never before min_tokens: the sampler rules it out
            return "stop"
        full = len(sequence.tokens) >= self.max_tokens_per_sequence
        return "length" if full or sequence.produced >= params.max_tokens else None

    def _fail(self, sequence: Sequence) -> SequenceFailed:
        self.abort(sequence.id)
        return SequenceFailed(sequence.id, EAServeError("the model's logits are not finite numbers"))


def _first_times(sequence: Sequence) -> PrefillTimes | None:
    """With the first token only. Transfer is the worker's to know."""
    if sequence.produced != 1:
        return None
    began = sequence.added if sequence.first_scheduled is None else sequence.first_scheduled
    return PrefillTimes(queue=began - sequence.added, transfer=0.0, prefill=time.monotonic() - began)
