"""The torch engine: continuous batching over a transformers language model, and the encoder beside it.

The reference for correctness, on CPU and CUDA (the CUDA path has not been run on a GPU yet).
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Many

import numpy as np
import torch

from easerve.engine.base import EngineStats, NewSequence, SequenceFailed
from easerve.engine.torch import sampler
from easerve.engine.torch.batch import assemble, is_decode
from easerve.engine.torch.kv_cache import BlockPool, KVCache, blocks_for
from easerve.engine.torch.options import EngineOptions
from easerve.engine.torch.scheduler import Chunk, Scheduler
from easerve.engine.torch.sequence import Sequence
from easerve.errors import BadRequest, EAServeError
from easerve.models.base import Embedding, EncoderPart, LanguagePart, MediaSpan
from easerve.request import FinishReason, PrefillTimes, TokenOutput


class TorchEncoder:
    """An encoder part as an engine."""

    def __init__(self, part: EncoderPart) -> None:
        self._part = part

    def encode(self, pictures: Many[np.ndarray]) -> list[Embedding]:
        return self._part.encode(pictures)


class TorchLanguageModel:
    """A language part behind the `LanguageModel` protocol."""

    def __init__(self, part: LanguagePart, options: EngineOptions) -> None:
        self._part = part
        context = min(options.max_model_len or part.max_positions, part.max_positions)
        blocks = blocks_for(
            part.kv, options.block_size, options.kv_cache_bytes, context * options.max_sequences, part.device
        )
        self._cache = KVCache(part.kv, blocks, options.block_size, part.device)
        self._scheduler = Scheduler(
            BlockPool(blocks), options.block_size, options.max_batched_tokens, options.max_sequences
        )
        self.max_tokens_per_sequence = min(context, blocks * options.block_size)
        self._sequences: dict[str, Sequence] = {}
        self._prompt_tokens = 0
        self._output_tokens = 0

    def add(self, sequence: NewSequence) -> None:
        length = len(sequence.prompt)
        if length == 0:
            raise BadRequest("the prompt is empty", param="prompt")
        if length >= self.max_tokens_per_sequence:
            raise BadRequest(
                f"the prompt is {length} tokens long; with at least one of output, "
                f"{self.max_tokens_per_sequence} is the most that fits (context and KV pool)"
            )
        spans = _spans(sequence)
        positions, following = self._part.positions(length, spans)
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
        chunks = sorted(self._scheduler.schedule(), key=is_decode, reverse=True)
        if not chunks:
            return []
        for chunk in chunks:
            chunk.sequence.first_scheduled = chunk.sequence.first_scheduled or started
        inputs = assemble(chunks, self._part, self._cache)
        hidden = self._part.forward(inputs.embeds, inputs.positions, deepstack=inputs.deepstack, paged=inputs.paged)
        sampling = [chunk.sequence for chunk in chunks if chunk.samples]
        self._advance(chunks)
        if not sampling:
            return []
        return self._sample(self._part.logits(hidden[inputs.sample_rows]), sampling)

    def stats(self) -> EngineStats:
        scheduler = self._scheduler
        return EngineStats(
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            kv_blocks_total=scheduler.pool.total,
            kv_blocks_used=scheduler.pool.used,
            preemptions=scheduler.preemptions,
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            pending_tokens=sum(one.uncomputed for one in list(self._sequences.values()) if one.uncomputed > 1),
        )

    def _advance(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            before = min(chunk.sequence.computed, chunk.sequence.prompt_length)
            chunk.sequence.computed += chunk.count
            self._prompt_tokens += min(chunk.sequence.computed, chunk.sequence.prompt_length) - before

    def _sample(self, logits: torch.Tensor, sequences: list[Sequence]) -> list[TokenOutput | SequenceFailed]:
        sound = torch.isfinite(logits).all(-1).tolist()
        failed = [sequence for sequence, good in zip(sequences, sound, strict=True) if not good]
        if failed:
            sequences = [sequence for sequence, good in zip(sequences, sound, strict=True) if good]
            logits = logits[torch.tensor(sound, device=logits.device)]
        outputs: list[TokenOutput | SequenceFailed] = [self._fail(sequence) for sequence in failed]
        tokens = sampler.sample(logits, sequences, self._part.eos_token_ids)
        probabilities = sampler.logprobs(logits, sequences, tokens)
        for sequence, token, logprobs in zip(sequences, tokens, probabilities, strict=True):
            sequence.tokens.append(token)
            self._output_tokens += 1
            reason = self._finished(sequence)
            outputs.append(
                TokenOutput(
                    sequence_id=sequence.id,
                    token_id=token,
                    finish_reason=reason,
                    stop_token=token if reason == "stop" else None,
                    logprobs=logprobs,
                    times=_first_times(sequence),
                )
            )
            if reason is not None:
                self.abort(sequence.id)
        return outputs

    def _finished(self, sequence: Sequence) -> FinishReason | None:
        params, token = sequence.sampling, sequence.tokens[-1]
        produced = len(sequence.output)
        ends = token in params.stop_token_ids or (token in self._part.eos_token_ids and not params.ignore_eos)
        if ends and produced > params.min_tokens:
            return "stop"
        full = len(sequence.tokens) >= self.max_tokens_per_sequence
        return "length" if produced >= params.max_tokens or full else None

    def _fail(self, sequence: Sequence) -> SequenceFailed:
        self.abort(sequence.id)
        return SequenceFailed(sequence.id, EAServeError("the model's logits are not finite numbers"))


def _spans(sequence: NewSequence) -> list[MediaSpan]:
    """Raises BadRequest if the embeddings do not lie one after the other within the prompt."""
    spans, free = [], 0
    for offset, embedding in sequence.media:
        tokens = embedding.values.shape[0]
        if offset < free or offset + tokens > len(sequence.prompt):
            raise BadRequest(f"media at token {offset}, {tokens} long, do not fit a prompt of {len(sequence.prompt)}")
        spans.append(MediaSpan(offset, tokens, embedding.grid))
        free = offset + tokens
    return spans


def _first_times(sequence: Sequence) -> PrefillTimes | None:
    if sequence.first_token_out:
        return None
    sequence.first_token_out = True
    began = sequence.first_scheduled or sequence.added
    return PrefillTimes(queue=began - sequence.added, transfer=0.0, prefill=time.monotonic() - began)
