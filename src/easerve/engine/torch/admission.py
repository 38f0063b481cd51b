"""Whether a sequence may enter the engine: everything that could make a step fail later is refused here.

One bad sequence must fail alone, and a step computes many together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from easerve.engine.base import KVState, NewSequence
from easerve.engine.scheduling import check_length
from easerve.engine.torch.stopping import ends
from easerve.errors import BadRequest, EAServeError
from easerve.models.base import Embedding, KVShape, MediaSpan


class ModelShape(Protocol):
    """What of a language model its input must fit; a `LanguagePart` has it."""

    @property
    def kv(self) -> KVShape: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...


def check(sequence: NewSequence, part: ModelShape, most_tokens: int) -> list[MediaSpan]:
    """Where the media lie; nowhere if the sequence brings its keys and values.

    Raises BadRequest if the sequence can never fit, or its parts do not fit each other; EAServeError if what another
    engine did for it does not fit: no client is to blame for that.
    """
    check_length(len(sequence.prompt), len(sequence.produced), most_tokens)
    _check_ids("prompt", sequence.prompt, part.vocab_size)
    _check_ids("produced", sequence.produced, part.vocab_size)
    _check_ids("stop_token_ids", sequence.sampling.stop_token_ids, part.vocab_size)
    _check_produced(sequence, part.eos_token_ids)
    if sequence.kv is not None:
        _check_kv(sequence.kv, sequence, part.kv)
        return []
    return _check_media(sequence, part)


def _check_media(sequence: NewSequence, part: ModelShape) -> list[MediaSpan]:
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


def _check_produced(sequence: NewSequence, eos: tuple[int, ...]) -> None:
    produced, params = sequence.produced, sequence.sampling
    if produced and len(produced) >= params.max_tokens:
        raise EAServeError(
            f"Sequence {sequence.id!r} comes with {len(produced)} tokens produced, but max_tokens is "
            f"{params.max_tokens}: nothing is left to generate."
        )
    last = next((token for token in produced if ends(token, params, eos)), None)
    if last is not None:
        raise EAServeError(f"Sequence {sequence.id!r} ended with token {last} already: nothing is left to generate.")


def _check_kv(kv: KVState, sequence: NewSequence, wanted: KVShape) -> None:
    shape, dtype = tuple(kv.keys_values.shape), kv.keys_values.dtype
    rest = (wanted.layers, 2, wanted.kv_heads, wanted.head_dim)
    if len(shape) != 5 or (*shape[:2], *shape[3:]) != rest or dtype != wanted.dtype:
        raise EAServeError(
            f"Keys and values of the shape {shape} and {dtype} were handed over; this model keeps ({wanted.layers}, 2, "
            f"tokens, {wanted.kv_heads}, {wanted.head_dim}) and {wanted.dtype}. Both workers must serve one model in "
            "one dtype."
        )
    least, most = len(sequence.prompt), len(sequence.prompt) + len(sequence.produced) - 1
    if not least <= kv.tokens <= most:
        raise EAServeError(
            f"Keys and values of {kv.tokens} tokens were handed over with a prompt of {least} and "
            f"{len(sequence.produced)} produced; they must cover the whole prompt, but not the newest produced token."
        )
    if kv.next_position < 0:
        raise EAServeError(f"Keys and values were handed over with the position {kv.next_position} to go on from.")


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
