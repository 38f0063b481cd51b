"""Chooses the next token of each sequence from its logits.

Draws are counter-based: each is seeded by the request's seed and the output position alone, so the same request draws
the same tokens in any batch, after a preemption, and on another worker. Order of operations and meanings follow
vLLM: log-probabilities are of the raw logits; penalties, then temperature, then min_p, top_k and top_p.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

import torch

from easerve.engine.torch.sequence import Sequence
from easerve.request import SamplingParams, TokenLogprobs

_NEVER = float("-inf")
_GOLDEN = 0x9E3779B97F4A7C15  # spreads neighbouring positions over the seed space


def sample(logits: torch.Tensor, sequences: Many[Sequence], eos: tuple[int, ...]) -> list[int]:
    """One token id per row of `logits` (sequences, vocabulary), float32; `logits` is left alone."""
    if all(_is_plain_greedy(sequence) for sequence in sequences):
        return logits.argmax(-1).tolist()
    return [_sample_one(row, sequence, eos) for row, sequence in zip(logits, sequences, strict=True)]


def logprobs(logits: torch.Tensor, sequences: Many[Sequence], tokens: Many[int]) -> list[TokenLogprobs | None]:
    """Log-probabilities of the raw logits, for the sequences that ask for them."""
    return [
        None if sequence.sampling.logprobs is None else _logprobs(row, token, sequence.sampling.logprobs)
        for row, sequence, token in zip(logits, sequences, tokens, strict=True)
    ]


def _logprobs(row: torch.Tensor, token: int, amount: int) -> TokenLogprobs:
    every = row.log_softmax(-1)
    values, ids = every.topk(min(amount, row.shape[-1]))
    return TokenLogprobs(float(every[token]), tuple(zip(ids.tolist(), values.tolist(), strict=True)))


def _is_plain_greedy(sequence: Sequence) -> bool:
    params = sequence.sampling
    return params.temperature == 0 and not _penalised(params) and len(sequence.output) >= params.min_tokens


def _penalised(params: SamplingParams) -> bool:
    return (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) != (1.0, 0.0, 0.0)


def _sample_one(row: torch.Tensor, sequence: Sequence, eos: tuple[int, ...]) -> int:
    params = sequence.sampling
    row = row.clone()
    if _penalised(params):
        _penalise(row, sequence)
    if len(sequence.output) < params.min_tokens:
        row[list({*eos, *params.stop_token_ids})] = _NEVER
    if params.temperature == 0:
        return int(row.argmax())
    return _draw(_restrict(row / params.temperature, params), params.seed, len(sequence.output))


def _penalise(row: torch.Tensor, sequence: Sequence) -> None:
    """Repetition counts prompt and output, presence and frequency the output only."""
    params = sequence.sampling
    if params.repetition_penalty != 1.0:
        seen = torch.tensor(sorted(set(sequence.tokens)), device=row.device)
        scores = row[seen]
        row[seen] = torch.where(scores > 0, scores / params.repetition_penalty, scores * params.repetition_penalty)
    if sequence.output:
        counts = torch.bincount(torch.tensor(sequence.output), minlength=row.shape[-1]).to(row.device)
        row -= params.frequency_penalty * counts + params.presence_penalty * (counts > 0)


def _restrict(row: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Rule out what min_p, top_k and top_p exclude; the most likely token always stays."""
    if params.min_p > 0:
        row = row.masked_fill(row.softmax(-1) < params.min_p * row.softmax(-1).max(), _NEVER)
    if 0 < params.top_k < row.shape[-1]:
        row = row.masked_fill(row < row.topk(params.top_k).values[-1], _NEVER)
    if params.top_p < 1:
        ordered, index = row.softmax(-1).sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered >= params.top_p
        beyond[0] = False
        row = row.masked_fill(torch.zeros_like(beyond).scatter(-1, index, beyond), _NEVER)
    return row


def _draw(row: torch.Tensor, seed: int, position: int) -> int:
    """The winner of a race of exponential clocks, which is a draw from softmax(row)."""
    generator = torch.Generator().manual_seed((seed * _GOLDEN + position * 0xBF58476D1CE4E5B9) % 2**63)
    clocks = torch.empty(row.shape[-1]).exponential_(generator=generator).to(row.device)
    return int((row.softmax(-1) / clocks).argmax())
