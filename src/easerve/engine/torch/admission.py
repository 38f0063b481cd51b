"""Whether a sequence may enter the engine: everything that could make a step fail later is refused here.

One bad sequence must fail alone, and a step computes many together.
"""

from __future__ import annotations

from collections.abc import Sequence

from easerve.engine.base import NewSequence
from easerve.errors import BadRequest
from easerve.models.base import Embedding, LanguagePart, MediaSpan


def check(sequence: NewSequence, part: LanguagePart, most_tokens: int) -> list[MediaSpan]:
    """Where the media lie. Raises BadRequest if the sequence can never fit, or its parts do not fit each other."""
    _check_length(len(sequence.prompt), most_tokens)
    _check_ids("prompt", sequence.prompt, part.vocab_size)
    _check_ids("stop_token_ids", sequence.sampling.stop_token_ids, part.vocab_size)
    spans, free = [], 0
    for offset, embedding in sequence.media:
        _check_shape(offset, embedding, part.width)
        span = MediaSpan(offset, embedding.values.shape[0], embedding.grid)
        if offset < free or offset + span.tokens > len(sequence.prompt):
            raise BadRequest(
                f"Media at token {offset}, {span.tokens} tokens long, overlap what is before them or pass the end of "
                f"the prompt of {len(sequence.prompt)} tokens."
            )
        spans.append(span)
        free = offset + span.tokens
    _check_placeholders(sequence.prompt, spans)
    return spans


def _check_length(length: int, most_tokens: int) -> None:
    if length == 0:
        raise BadRequest("The prompt is empty; give at least one token.", param="prompt")
    if length + 1 > most_tokens:
        raise BadRequest(
            f"The prompt is {length} tokens long; with at least one of output that is more than the {most_tokens} that "
            "fit (context length and KV pool). Shorten it, or use smaller or fewer pictures.",
            code="context_length_exceeded",
        )


def _check_ids(name: str, ids: Sequence[int], vocabulary: int) -> None:
    if ids and (min(ids) < 0 or max(ids) >= vocabulary):
        wrong = min(ids) if min(ids) < 0 else max(ids)
        raise BadRequest(f"{name} holds token id {wrong}; this model has ids 0 to {vocabulary - 1}.", param=name)


def _check_shape(offset: int, embedding: Embedding, width: int) -> None:
    shape = tuple(embedding.values.shape)
    if len(shape) != 2 or shape[0] == 0 or shape[1] != width:
        raise BadRequest(f"The embedding at token {offset} has the shape {shape}; this model wants (tokens, {width}).")
    levels = embedding.deepstack
    if levels is not None and (levels.ndim != 3 or tuple(levels.shape[1:]) != shape):
        raise BadRequest(f"Deepstack levels at token {offset} have the shape {tuple(levels.shape)}, values {shape}.")


def _check_placeholders(prompt: list[int], spans: list[MediaSpan]) -> None:
    """An item's placeholders are one token id, repeated exactly as often as its embedding is long.

    An embedding shorter or longer than its placeholders would shift everything after it without a trace.
    """
    covered = {index for span in spans for index in (span.offset, span.offset + span.tokens - 1)}
    for span in spans:
        placeholder, end = prompt[span.offset], span.offset + span.tokens
        inside = prompt[span.offset : end].count(placeholder)
        around = [index for index in (span.offset - 1, end) if 0 <= index < len(prompt) and index not in covered]
        if inside != span.tokens or any(prompt[index] == placeholder for index in around):
            raise BadRequest(
                f"The embedding at token {span.offset} is {span.tokens} tokens long, but the prompt does not have "
                "just as many placeholders there."
            )
