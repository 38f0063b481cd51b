"""Requests as sizes: from what a workload would send to what the pipeline would be given."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from PIL import Image

from easerve.bench.clips import RATE
from easerve.bench.request import Request as BenchRequest
from easerve.errors import BadRequest
from easerve.request import Modality
from easerve.simulate.text import TextTokens, by_words, parts


@dataclass(frozen=True)
class Picture:
    """`key` is the same for the same content; sizes are pixels."""

    modality: ClassVar[Modality] = "image"
    key: str
    width: int
    height: int


@dataclass(frozen=True)
class Clip:
    """Sound as one row of so many samples, `RATE` of them a second."""

    modality: ClassVar[Modality] = "audio"
    key: str
    width: int
    height: int = 1


Item = Picture | Clip


@dataclass(frozen=True)
class Sizes:
    """A request's prompt: text tokens, and media in order."""

    text_tokens: int
    media: tuple[Item, ...]
    output_tokens: int


def sizes(request: BenchRequest, text: TextTokens = by_words) -> Sizes:
    """Raises BadRequest for what has no size before it is fetched or answered."""
    if request.output_tokens is None:
        raise BadRequest("a simulation needs to know how long answers are: --set output_tokens=N, or max_tokens")
    media = [part for message in request.messages for part in parts(message) if part.get("type") != "text"]
    return Sizes(text(request.messages), tuple(_item(part) for part in media), request.output_tokens)


def _item(part: Mapping[str, Any]) -> Item:
    """From a sketch, or from the header of an inline file."""
    kind = part.get("type")
    if kind not in ("image_url", "audio_url"):
        raise BadRequest(f"a simulation takes text, pictures and sound; {kind!r} is none of them")
    url: str = part[kind]["url"]
    if not url.startswith(("data:", "sketch:")):
        raise BadRequest(f"a simulation fetches nothing: give {url[:60]!r} as a file beside the requests")
    return _picture(url) if kind == "image_url" else _clip(url)


def _picture(url: str) -> Picture:
    if found := re.fullmatch(r"sketch:(\d+)x(\d+):(\w+)", url):
        return Picture(found[3], int(found[1]), int(found[2]))
    content = _content(url)
    with Image.open(io.BytesIO(content)) as image:
        return Picture(_key(content), *image.size)


def _clip(url: str) -> Clip:
    if found := re.fullmatch(r"sketch:(\d+):(\w+)", url):
        return Clip(found[2], int(found[1]))
    content = _content(url)
    try:
        with wave.open(io.BytesIO(content)) as sound:
            return Clip(_key(content), round(RATE * sound.getnframes() / sound.getframerate()))
    except (wave.Error, EOFError) as error:
        raise BadRequest(f"a simulation reads how long sound is from WAV files alone: {error}") from error


def _content(url: str) -> bytes:
    return base64.b64decode(url.partition(",")[2])


def _key(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()
