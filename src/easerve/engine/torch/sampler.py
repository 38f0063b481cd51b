"""Chooses the next token of each sequence from its logits, all rows of a step together.

Order of operations and meanings follow vLLM: log-probabilities are of the raw logits; penalties and `min_tokens`, then
temperature, then min_p, top_k and top_p. Draws are a Gumbel-max race whose noise is a hash of request seed, output
position and token id: the same request draws the same tokens in any batch, after a preemption, on another worker, and
on another kind of device.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

import torch

from easerve.engine.torch.sequence import Sequence
from easerve.request import SamplingParams, TokenLogprobs

_NEVER = float("-inf")
_GREEDY_BELOW = 1e-5  # a temperature below this is 0: dividing by it would overflow
_WORD = 2**64
# SplitMix64 (Steele, Lea, Flood 2014): the step between states, and the multipliers of its finalizer.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_BITS = 52  # of the hash that make a uniform number; with the half added, all are exact and inside (0, 1)


def sample(logits: torch.Tensor, sequences: Many[Sequence], eos: tuple[int, ...]) -> list[int]:
    """One token id per row of `logits` (sequences, vocabulary), float32; `logits` is left alone."""
    if all(_is_plain_greedy(sequence) for sequence in sequences):
        return _ids(logits.argmax(-1))
    scores = logits.clone()
    _penalise(scores, sequences)
    _forbid_stops(scores, sequences, eos)
    drawing = [row for row, one in enumerate(sequences) if not _is_greedy(one.sampling)]
    tokens = _ids(scores.argmax(-1))
    if drawing:
        chosen = [sequences[row] for row in drawing]
        drawn = _ids(_draw(_restrict(scores[drawing], [one.sampling for one in chosen]), chosen))
        for row, token in zip(drawing, drawn, strict=True):
            tokens[row] = token
    return tokens


def logprobs(logits: torch.Tensor, sequences: Many[Sequence], tokens: Many[int]) -> list[TokenLogprobs | None]:
    """Log-probabilities of the raw logits: of the chosen token and the most likely, for sequences that ask."""
    found: list[TokenLogprobs | None] = [None] * len(sequences)
    amounts = {row: one.sampling.logprobs for row, one in enumerate(sequences) if one.sampling.logprobs is not None}
    if not amounts:
        return found
    rows = list(amounts)
    every = logits[rows].log_softmax(-1)
    chosen = every.gather(1, _column([tokens[row] for row in rows], every.device))[:, 0].tolist()
    values, ids = every.topk(min(max(amounts.values()), every.shape[1]))
    for row, own, top_ids, top_values in zip(rows, chosen, ids.tolist(), values.tolist(), strict=True):
        found[row] = TokenLogprobs(own, tuple(zip(top_ids, top_values, strict=True))[: amounts[row]])
    return found


def _ids(tokens: torch.Tensor) -> list[int]:
    found: list[int] = tokens.tolist()
    return found


def _column(values: list[int] | list[float], device: torch.device) -> torch.Tensor:
    return torch.tensor(values, device=device)[:, None]


def _is_greedy(params: SamplingParams) -> bool:
    return params.temperature < _GREEDY_BELOW


def _is_penalised(params: SamplingParams) -> bool:
    return (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) != (1.0, 0.0, 0.0)


def _is_plain_greedy(sequence: Sequence) -> bool:
    params = sequence.sampling
    return _is_greedy(params) and not _is_penalised(params) and sequence.produced >= params.min_tokens


def _penalise(scores: torch.Tensor, sequences: Many[Sequence]) -> None:
    """In place. Repetition counts prompt and output, presence and frequency the output only."""
    rows = [row for row, one in enumerate(sequences) if _is_penalised(one.sampling)]
    if not rows:
        return
    penalised = [sequences[row] for row in rows]
    params = [one.sampling for one in penalised]
    device, vocabulary = scores.device, scores.shape[1]
    seen = _counts([one.tokens for one in penalised], vocabulary, device) > 0
    counts = _counts([one.output for one in penalised], vocabulary, device)
    part = scores[rows]
    repetition = _column([one.repetition_penalty for one in params], device)
    part = torch.where(seen, torch.where(part > 0, part / repetition, part * repetition), part)
    part -= _column([one.frequency_penalty for one in params], device) * counts
    part -= _column([one.presence_penalty for one in params], device) * (counts > 0)
    scores[rows] = part


def _counts(tokens: list[list[int]], vocabulary: int, device: torch.device) -> torch.Tensor:
    """(rows, vocabulary) how often each token occurs."""
    rows = [row for row, ids in enumerate(tokens) for _ in ids]
    places = torch.tensor([rows, [token for ids in tokens for token in ids]], dtype=torch.long, device=device)
    flat = places[0] * vocabulary + places[1]
    return torch.bincount(flat, minlength=len(tokens) * vocabulary).view(len(tokens), vocabulary)


def _forbid_stops(scores: torch.Tensor, sequences: Many[Sequence], eos: tuple[int, ...]) -> None:
    """In place: nothing that ends a sequence before its `min_tokens`."""
    for row, one in enumerate(sequences):
        if one.produced < one.sampling.min_tokens:
            scores[row, list({*eos, *one.sampling.stop_token_ids})] = _NEVER


def _restrict(scores: torch.Tensor, params: Many[SamplingParams]) -> torch.Tensor:
    """Apply the temperature and rule out what min_p, top_k and top_p exclude; the most likely token always stays."""
    device = scores.device
    scores = scores / _column([one.temperature for one in params], device)
    if any(one.min_p > 0 for one in params):
        floor = scores.max(-1, keepdim=True).values + _column([one.min_p for one in params], device).log()
        scores = scores.masked_fill(scores < floor, _NEVER)
    if any(one.top_k > 0 for one in params):
        scores = _top_k(scores, [one.top_k for one in params])
    if any(one.top_p < 1 for one in params):
        scores = _top_p(scores, _column([one.top_p for one in params], device))
    return scores


def _top_k(scores: torch.Tensor, amounts: list[int]) -> torch.Tensor:
    """Ties with the last that stays stay too, as in vLLM."""
    vocabulary = scores.shape[1]
    kept = [min(amount, vocabulary) if amount > 0 else vocabulary for amount in amounts]
    most = max((amount for amount in kept if amount < vocabulary), default=1)
    places = _column([min(amount, most) - 1 for amount in kept], scores.device)
    least = scores.topk(most).values.gather(1, places)
    least[[row for row, amount in enumerate(kept) if amount == vocabulary]] = _NEVER
    return scores.masked_fill(scores < least, _NEVER)


def _top_p(scores: torch.Tensor, mass: torch.Tensor) -> torch.Tensor:
    """Keep the fewest tokens, most likely first, that together have at least `mass` (rows, 1)."""
    ordered, index = scores.softmax(-1).sort(descending=True, stable=True)
    beyond = (ordered.cumsum(-1) - ordered >= mass) & (mass < 1)
    beyond[:, 0] = False
    return scores.masked_fill(torch.zeros_like(beyond).scatter_(1, index, beyond), _NEVER)


def _draw(scores: torch.Tensor, sequences: Many[Sequence]) -> torch.Tensor:
    """(rows,) token ids: the largest of score + Gumbel noise, which is a draw from softmax(scores)."""
    keys = [_row_key(one.sampling.seed, one.produced) for one in sequences]
    return (scores - _log_exponential(keys, scores.shape[1], scores.device)).argmax(-1)


def _row_key(seed: int, position: int) -> int:
    """64 bits that belong to one output position of one request."""
    return _mix_int((_mix_int(seed % _WORD) + position * _STEP) % _WORD)


def _log_exponential(keys: list[int], vocabulary: int, device: torch.device) -> torch.Tensor:
    """(rows, vocabulary) float32: logarithms of exponential variates, one SplitMix64 stream per key."""
    state = torch.arange(vocabulary, device=device) * _signed(_STEP) + _column([_signed(key) for key in keys], device)
    uniform = _shift(_mix(state), 64 - _BITS).double().add_(0.5).mul_(2.0**-_BITS)
    return uniform.log_().neg_().log_().float()


def _mix_int(word: int) -> int:
    word = (word ^ (word >> 30)) * _FIRST % _WORD
    word = (word ^ (word >> 27)) * _SECOND % _WORD
    return word ^ (word >> 31)


def _mix(words: torch.Tensor) -> torch.Tensor:
    """`_mix_int` of each int64, in place; products wrap around as unsigned ones do."""
    words.bitwise_xor_(_shift(words, 30)).mul_(_signed(_FIRST))
    words.bitwise_xor_(_shift(words, 27)).mul_(_signed(_SECOND))
    return words.bitwise_xor_(_shift(words, 31))


def _shift(words: torch.Tensor, places: int) -> torch.Tensor:
    """Logical shift to the right; torch's own brings the sign along."""
    return (words >> places).bitwise_and_(2 ** (64 - places) - 1)


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD // 2 else word
