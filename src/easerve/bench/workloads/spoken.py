"""Requests with new clips of sound each, as an assistant that listens gets them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal, Self

from pydantic import Field, model_validator

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.request import Request, user_message
from easerve.bench.words import text
from easerve.bench.workloads.base import Workload


class Spoken(Workload):
    """`clips` of `shortest` to `longest` seconds, drawn alike, before `words` of text. The lengths are about those of
    LibriSpeech, whose mean is 12 s."""

    kind: Literal["spoken"] = "spoken"
    clips: int = Field(default=1, ge=1)
    shortest: float = Field(default=3.0, gt=0)
    longest: float = Field(default=21.0, gt=0)
    words: int = Field(default=64, ge=1)
    output_tokens: int = Field(default=32, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest, {self.shortest:g} s, is above longest, {self.longest:g} s")
        return self

    def requests(self, rng: Random, draw: Draw = DRAWN) -> Iterator[Request]:
        while True:
            clips = [draw.clip(rng.uniform(self.shortest, self.longest), rng) for _ in range(self.clips)]
            yield Request([user_message(text(self.words, rng), clips=clips)], self.output_tokens)
