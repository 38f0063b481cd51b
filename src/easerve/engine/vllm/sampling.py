"""Our sampling parameters as vLLM's. What a sequence produced elsewhere is prompt to vLLM: it is accounted here."""

from __future__ import annotations

from collections import Counter

from vllm import SamplingParams as VllmSamplingParams

from easerve.engine.base import NewSequence

_GREEDY_BELOW = 1e-5  # as in the torch engine; vLLM would raise it to 0.01


def sampling_params(sequence: NewSequence, eos: tuple[int, ...]) -> VllmSamplingParams:
    """For the tokens that are still to come; `eos` are the checkpoint's. Raises ValueError for what vLLM refuses.

    Draws are left to `draws`.
    """
    params, done = sequence.sampling, len(sequence.produced)
    most = 1 if sequence.stop_after == "prefill" else params.max_tokens - done
    return VllmSamplingParams(
        max_tokens=most,
        min_tokens=min(most, max(0, params.min_tokens - done)),
        temperature=params.temperature if params.temperature >= _GREEDY_BELOW else 0.0,
        top_p=params.top_p,
        top_k=params.top_k,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        stop_token_ids=[*params.stop_token_ids, *(() if params.ignore_eos else eos)],
        ignore_eos=params.ignore_eos,
        logprobs=params.logprobs,
        logit_bias=_penalties_of(sequence) or None,
        detokenize=False,
    )


def _penalties_of(sequence: NewSequence) -> dict[int, float]:
    """What presence and frequency penalties, which vLLM takes from its own output only, owe to the tokens before it.

    Exact but for the presence of a token that comes again: vLLM counts that once more.
    """
    presence, frequency = sequence.sampling.presence_penalty, sequence.sampling.frequency_penalty
    if not presence and not frequency:
        return {}
    return {token: -presence - frequency * count for token, count in Counter(sequence.produced).items()}
