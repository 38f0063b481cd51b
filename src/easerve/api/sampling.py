"""From a request's fields to sampling parameters that leave nothing open: lengths that fit, and a seed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from easerve.api.schema import ChatRequest, CommonFields
from easerve.api.service import ServedModel
from easerve.errors import BadRequest
from easerve.request import SamplingParams

COMPLETION_TOKENS = 16  # OpenAI's default for completions; chat takes what the context leaves
SEEDS = 2**62  # seeds stay far enough below 2**63 to add the index of an answer


@dataclass(frozen=True)
class Length:
    """Tokens of a prompt, and how many of them stand for pictures."""

    tokens: int
    pictures: int = 0


def check_prompt(length: Length, model: ServedModel, param: str) -> None:
    """Raise BadRequest unless the prompt leaves room for a token."""
    longest = model.max_model_len
    if 0 < length.tokens < longest:
        return
    if not length.tokens:
        raise BadRequest("the prompt is empty; send at least one token", param=param)
    if length.pictures:
        text = length.tokens - length.pictures
        raise BadRequest(
            f"the pictures fill {length.pictures} tokens and the text {text}, but the model's context is {longest} "
            "tokens for prompt and answer together; send fewer or smaller pictures",
            param=param,
            code="context_length_exceeded",
        )
    raise BadRequest(
        f"the prompt has {length.tokens} tokens, but the model's context is {longest} tokens for prompt and answer "
        "together; shorten the prompt",
        param=param,
        code="context_length_exceeded",
    )


def sampling_params(fields: CommonFields, model: ServedModel, length: Length) -> SamplingParams:
    """What the engine is told. Raises BadRequest when the asked-for length does not fit after the prompt."""
    longest = _max_tokens(fields, model.max_model_len - length.tokens, length)
    if fields.min_tokens > longest:
        raise BadRequest(
            f"min_tokens is {fields.min_tokens}, more than the {longest} tokens the answer may have", param="min_tokens"
        )
    usual = model.default_sampling
    return SamplingParams(
        max_tokens=longest,
        min_tokens=fields.min_tokens,
        temperature=_first(fields.temperature, usual.get("temperature"), 1.0),
        top_p=_first(fields.top_p, usual.get("top_p"), 1.0),
        top_k=max(0, int(_first(fields.top_k, usual.get("top_k"), 0))),
        min_p=_first(fields.min_p, usual.get("min_p"), 0.0),
        repetition_penalty=_first(fields.repetition_penalty, usual.get("repetition_penalty"), 1.0),
        presence_penalty=fields.presence_penalty,
        frequency_penalty=fields.frequency_penalty,
        seed=secrets.randbelow(SEEDS) if fields.seed is None else fields.seed % SEEDS,
        stop_token_ids=tuple(fields.stop_token_ids or ()),
        ignore_eos=fields.ignore_eos,
        logprobs=_logprobs(fields),
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _max_tokens(fields: CommonFields, room: int, length: Length) -> int:
    name, asked = "max_tokens", fields.max_tokens
    if isinstance(fields, ChatRequest):
        if fields.max_completion_tokens is not None:
            name, asked = "max_completion_tokens", fields.max_completion_tokens
        if asked is None:
            return room
    elif asked is None:
        return min(room, COMPLETION_TOKENS)
    if asked > room:
        raise BadRequest(
            f"{name} is {asked}, but after the {length.tokens} tokens of the prompt the model's context has room for "
            f"{room}; lower {name} or shorten the prompt",
            param=name,
            code="context_length_exceeded",
        )
    return asked


def _logprobs(fields: CommonFields) -> int | None:
    if isinstance(fields, ChatRequest):
        return fields.top_logprobs if fields.logprobs else None
    count = getattr(fields, "logprobs", None)
    return count if isinstance(count, int) else None
