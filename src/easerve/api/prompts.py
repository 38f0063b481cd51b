"""From validated fields to prompts: chat template, pictures loaded, placeholders widened.

Owns the pixel buffers until the pipeline takes them; whatever fails before that gives them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from easerve.api.backend import Backend
from easerve.api.pictures import PixelBuffers, Source, load, picture_sources
from easerve.api.sampling import Length, check_prompt
from easerve.api.schema import ChatRequest, CompletionRequest
from easerve.api.template import tokenize
from easerve.errors import BadRequest
from easerve.pipeline.timing import RequestTimes
from easerve.request import LaidPicture, MediaItem


@dataclass(frozen=True)
class Prompt:
    """Token ids, the media whose placeholders are among them, and where each of these came from."""

    token_ids: tuple[int, ...]
    media: tuple[MediaItem, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def length(self) -> Length:
        return Length(len(self.token_ids), sum(item.tokens for item in self.media))


async def chat_prompt(fields: ChatRequest, backend: Backend, times: RequestTimes, buffers: PixelBuffers) -> Prompt:
    """The prompt of a conversation. Raises BadRequest and TooLarge; `buffers` holds what was loaded till then."""
    sources = _checked_sources(fields, backend)
    ids = await tokenize(fields, backend.model.codec)
    places = _checked_places(ids, sources, backend)
    check_prompt(Length(len(ids), len(places)), backend.model, "messages")
    pictures = await load(sources, backend) if sources else []
    buffers.hold(pictures)
    times.fetch = max((picture.fetch_s for picture in pictures), default=0.0)
    times.decode_media = max((picture.decode_s for picture in pictures), default=0.0)
    counts = [_tokens_of(picture, source[1], backend) for picture, source in zip(pictures, sources, strict=True)]
    check_prompt(Length(len(ids) - len(places) + sum(counts), sum(counts)), backend.model, "messages")
    before = accumulate((count - 1 for count in counts), initial=0)
    offsets = [place + shift for place, shift in zip(places, before, strict=False)]
    media = [
        _media_item(picture, count, offset) for picture, count, offset in zip(pictures, counts, offsets, strict=True)
    ]
    return Prompt(_widened(ids, places, counts), tuple(media), tuple(sources))


def _checked_sources(fields: ChatRequest, backend: Backend) -> list[Source]:
    """Where the pictures come from, if there are not too many."""
    sources, limit = picture_sources(fields.messages), backend.options.limit_images
    if len(sources) > limit:
        raise BadRequest(
            f"the messages hold {len(sources)} pictures, the limit is {limit} per prompt; send fewer",
            param="messages",
            code="too_many_images",
        )
    return sources


def _checked_places(ids: Sequence[int], sources: Sequence[Source], backend: Backend) -> list[int]:
    """Where the placeholders stand, if there is one for each picture."""
    placeholder = backend.model.rules.image_token_id
    places = [k for k, number in enumerate(ids) if number == placeholder]
    if len(places) != len(sources):
        raise BadRequest(
            f"the chat template made {len(places)} places for {len(sources)} pictures; put pictures into user "
            "messages, and leave the model's picture token out of texts",
            param="messages",
            code="placeholder_mismatch",
        )
    return places


def completion_prompts(fields: CompletionRequest, backend: Backend) -> list[Prompt]:
    """The prompts of a completion request, text or token ids. Raises BadRequest."""
    prompts: list[str | list[int]] = fields.prompt
    model = backend.model
    found = []
    for index, prompt in enumerate(prompts):
        param = "prompt" if len(prompts) == 1 else f"prompt[{index}]"
        ids = model.codec.encode(prompt) if isinstance(prompt, str) else prompt
        _check_ids(ids, backend, param)
        check_prompt(Length(len(ids)), model, param)
        found.append(Prompt(tuple(ids)))
    return found


def _check_ids(ids: Sequence[int], backend: Backend, param: str) -> None:
    for number in ids:
        if not 0 <= number < backend.model.codec.vocab_size:
            raise BadRequest(
                f"{param}: token id {number} is outside the vocabulary of {backend.model.codec.vocab_size}", param=param
            )
        if number == backend.model.rules.image_token_id:
            raise BadRequest(
                f"{param}: holds the model's picture token, and completions take no pictures; use /v1/chat/completions",
                param=param,
            )


def _widened(ids: Sequence[int], places: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
    """`ids` with the token at the k-th place repeated `counts[k]` times."""
    wide = list(ids)
    for place, count in zip(reversed(places), reversed(counts), strict=True):
        wide[place : place + 1] = [ids[place]] * count
    return tuple(wide)


def _media_item(picture: LaidPicture, tokens: int, offset: int) -> MediaItem:
    return MediaItem(
        key=picture.key,
        modality="image",
        height=picture.height,
        width=picture.width,
        tokens=tokens,
        offset=offset,
        pixels=picture.pixels,
    )


def _tokens_of(picture: LaidPicture, param: str, backend: Backend) -> int:
    try:
        return backend.model.rules.image_tokens(picture.height, picture.width)
    except BadRequest as error:
        error.param = error.param or param
        raise


def copied_times(times: RequestTimes) -> RequestTimes:
    """The front end's part of `times`, to be filled in for one prompt."""
    return replace(times, items=[])
