"""Pictures that come again: drawn from a fixed set, the popular ones more often."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from random import Random
from typing import Literal

from pydantic import Field

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.pictures import Look
from easerve.bench.request import Request, user_message
from easerve.bench.words import text
from easerve.bench.workloads.base import Pixels, Workload


class Repeated(Workload):
    """`images` of each request come from `pictures` different ones; the k-th is drawn with weight k^-`zipf`."""

    kind: Literal["repeated"] = "repeated"
    pictures: int = Field(default=50, ge=1)
    zipf: float = Field(default=1.1, ge=0)
    images: int = Field(default=1, ge=1)
    size: Pixels = (224, 224)
    look: Look = "smooth"
    words: int = Field(default=64, ge=1)
    output_tokens: int = Field(default=32, ge=1)

    def requests(self, rng: Random, draw: Draw = DRAWN) -> Iterator[Request]:
        known = [draw.picture(self.size, self.look, rng) for _ in range(self.pictures)]
        weights = list(accumulate(rank**-self.zipf for rank in range(1, self.pictures + 1)))
        while True:
            urls = rng.choices(known, cum_weights=weights, k=self.images)
            yield Request([user_message(text(self.words, rng), urls)], self.output_tokens)
