"""From validated fields to prompts: chat template, pictures loaded, placeholders widened.

Owns the pixel buffers until the pipeline takes them; whatever fails before that gives them back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from easerve.api.backend import Backend
from easerve.api.pictures import PixelBuffers, Source, load, picture_sources
from easerve.api.sampling import Length, check_prompt
from easerve.api.schema import ChatRequest, CompletionRequest, Message
from easerve.errors import BadRequest
from easerve.pipeline.timing import RequestTimes
from easerve.request import LaidPicture, MediaItem

OFF_LOOP_TEXT = 50_000  # characters; tokenizing more (some 10 ms) happens on a thread


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
    sources = picture_sources(fields.messages)
    limit = backend.options.limit_images
    if len(sources) > limit:
        raise BadRequest(
            f"the messages hold {len(sources)} pictures, the limit is {limit} per prompt; send fewer",
            param="messages",
            code="too_many_images",
        )
    ids = await _tokenize(fields, backend)
    placeholder = backend.model.rules.image_token_id
    places = [k for k, number in enumerate(ids) if number == placeholder]
    if len(places) != len(sources):
        raise BadRequest(
            f"the chat template made {len(places)} places for {len(sources)} pictures; put pictures into user "
            "messages, and leave the model's picture token out of texts",
            param="messages",
            code="placeholder_mismatch",
        )
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
    return Prompt(_widened(ids, placeholder, counts), tuple(media), tuple(sources))


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


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as chat templates expect them: content as a list of parts, tool arguments as objects."""
    return [_template_message(message) for message in messages]


def _template_message(message: Message) -> dict[str, Any]:
    role = "system" if message.role == "developer" else message.role
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": part.text} if part.type == "text" else {"type": "image"}
        for part in message.content or []
    ]
    made: dict[str, Any] = {"role": role, "content": parts}
    if message.name is not None:
        made["name"] = message.name
    if message.tool_calls:
        made["tool_calls"] = [_with_object_arguments(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        made["tool_call_id"] = message.tool_call_id
    return made


def _with_object_arguments(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        return {**call, "function": {**function, "arguments": json.loads(function["arguments"])}}
    except ValueError:
        return call


async def _tokenize(fields: ChatRequest, backend: Backend) -> list[int]:
    messages = template_messages(fields.messages)
    options = {
        "add_generation_prompt": fields.add_generation_prompt,
        "continue_final_message": fields.continue_final_message,
        **fields.chat_template_kwargs,
    }
    size = sum(len(part.text or "") for message in fields.messages for part in message.content or [])
    if size > OFF_LOOP_TEXT:
        return await asyncio.to_thread(backend.model.codec.encode_chat, messages, **options)
    return backend.model.codec.encode_chat(messages, **options)


def _widened(ids: Sequence[int], placeholder: int, counts: Sequence[int]) -> tuple[int, ...]:
    """`ids` with the k-th placeholder repeated `counts[k]` times."""
    left = iter(counts)
    wide: list[int] = []
    for number in ids:
        wide.extend([number] * next(left) if number == placeholder else (number,))
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
