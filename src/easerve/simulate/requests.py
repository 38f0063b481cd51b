"""Requests as sizes: from what a workload would send to what the pipeline would be given."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from easerve.bench.request import Request as BenchRequest
from easerve.errors import BadRequest
from easerve.simulate.text import TextTokens, by_words, parts


@dataclass(frozen=True)
class Picture:
    """`key` is the same for the same content; sizes are pixels."""

    key: str
    width: int
    height: int


@dataclass(frozen=True)
class Sizes:
    """A request's prompt: text tokens, and pictures with their tokens, in order."""

    text_tokens: int
    pictures: tuple[Picture, ...]
    output_tokens: int


def sizes(request: BenchRequest, text: TextTokens = by_words) -> Sizes:
    """Raises BadRequest for what has no size before it is fetched or answered."""
    if request.output_tokens is None:
        raise BadRequest("a simulation needs to know how long answers are: --set output_tokens=N, or max_tokens")
    media = [part for message in request.messages for part in parts(message) if part.get("type") != "text"]
    return Sizes(text(request.messages), tuple(_picture(part) for part in media), request.output_tokens)


def _picture(part: Mapping[str, Any]) -> Picture:
    """From a sketch, or from the header of an inline picture."""
    if part.get("type") != "image_url":
        raise BadRequest(f"a simulation takes text and pictures; {part.get('type')!r} is neither")
    url: str = part["image_url"]["url"]
    if found := re.fullmatch(r"sketch:(\d+)x(\d+):(\w+)", url):
        return Picture(found[3], int(found[1]), int(found[2]))
    if not url.startswith("data:"):
        raise BadRequest(f"a simulation fetches nothing: give {url[:60]!r} as a file beside the requests")
    content = base64.b64decode(url.partition(",")[2])
    with Image.open(io.BytesIO(content)) as image:
        return Picture(hashlib.blake2b(content, digest_size=16).hexdigest(), *image.size)
