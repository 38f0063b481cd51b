"""Requests with new pictures each, a share of them without any."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

from pydantic import Field

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.pictures import Look
from easerve.bench.request import Request, user_message
from easerve.bench.words import text
from easerve.bench.workloads.base import Pixels, Workload


class Drawn(Workload):
    """`images` of `size` before `words` of text; `text_share` of the requests have text alone."""

    kind: Literal["drawn"] = "drawn"
    images: int = Field(default=2, ge=0)
    size: Pixels = (224, 224)
    look: Look = "smooth"
    words: int = Field(default=64, ge=1)
    output_tokens: int = Field(default=32, ge=1)
    text_share: float = Field(default=0.0, ge=0, le=1)

    def requests(self, rng: Random, draw: Draw = DRAWN) -> Iterator[Request]:
        while True:
            images = 0 if rng.random() < self.text_share else self.images
            urls = [draw.picture(self.size, self.look, rng) for _ in range(images)]
            yield Request([user_message(text(self.words, rng), urls)], self.output_tokens)
