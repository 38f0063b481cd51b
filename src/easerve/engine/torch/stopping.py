"""When a sequence is over."""

from __future__ import annotations

from easerve.engine.torch.sequence import Sequence
from easerve.request import FinishReason, SamplingParams


def ends(token: int, params: SamplingParams, eos: tuple[int, ...]) -> bool:
    """Whether this output token is a sequence's last. Before `min_tokens` the sampler never chooses one that is."""
    return token in params.stop_token_ids or (token in eos and not params.ignore_eos)


def finish_reason(sequence: Sequence, eos: tuple[int, ...], most_tokens: int) -> FinishReason | None:
    """Why the sequence is over after its newest token, or None; `most_tokens` fit, prompt included."""
    if ends(sequence.tokens[-1], sequence.sampling, eos):
        return "stop"
    full = len(sequence.tokens) >= most_tokens
    return "length" if full or sequence.produced >= sequence.sampling.max_tokens else None
