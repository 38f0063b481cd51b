"""vLLM's `random-mm`: its parameters by its names, drawn as its documentation says (pictures only).

    items per request   uniform in [floor(n (1 - r)), ceil(n (1 + r))], at most the limit per prompt
    item                a (height, width, frames) bucket, by probability
    input, output       uniform in [floor(len (1 - range_ratio)), ceil(len (1 + range_ratio))]

Lengths are words here and tokens there: there is no tokenizer. The draws are not vLLM's for the same seed.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping
from random import Random
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.pictures import Look
from easerve.bench.request import Request, user_message
from easerve.bench.words import text
from easerve.bench.workloads.base import Side, Workload

Bucket = tuple[Side, Side, int]  # height, width, frames


def _literal(value: object) -> object:
    """As vLLM's command line takes it: "{(256, 256, 1): 0.5, (720, 1280, 1): 0.5}"."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except SyntaxError as error:
        raise ValueError(f"cannot be read: {error.msg}") from error


class RandomMultimodal(Workload):
    """Noise pictures of some sizes, text of some lengths."""

    kind: Literal["random-mm"] = "random-mm"
    base_items_per_request: int = Field(default=1, ge=0)
    num_mm_items_range_ratio: float = Field(default=0.0, ge=0, le=1)
    limit_mm_per_prompt: Annotated[Mapping[str, int], BeforeValidator(_literal)] = {"image": 255}
    bucket_config: Annotated[Mapping[Bucket, float], BeforeValidator(_literal)] = {
        (256, 256, 1): 0.5,
        (720, 1280, 1): 0.5,
    }
    prefix_len: int = Field(default=0, ge=0)
    input_len: int = Field(default=1024, ge=1)
    output_len: int = Field(default=128, ge=1)
    range_ratio: float = Field(default=0.0, ge=0, lt=1)
    look: Look = "noise"

    @field_validator("bucket_config")
    @classmethod
    def _drawable(cls, value: Mapping[Bucket, float]) -> Mapping[Bucket, float]:
        kept = {bucket: share for bucket, share in value.items() if share}
        if not kept or min(kept.values()) < 0:
            raise ValueError("needs at least one bucket with a probability above 0 and none below")
        if any(frames != 1 for _, _, frames in kept):
            raise ValueError("has buckets of several frames: videos cannot be drawn, give them probability 0")
        return kept

    def requests(self, rng: Random, draw: Draw = DRAWN) -> Iterator[Request]:
        prefix = text(self.prefix_len, rng)
        buckets, shares = list(self.bucket_config), list(self.bucket_config.values())
        while True:
            items = min(
                _between(self.base_items_per_request, self.num_mm_items_range_ratio, rng),
                self.limit_mm_per_prompt.get("image", 0),
            )
            chosen = rng.choices(buckets, shares, k=items)
            urls = [draw.picture((width, height), self.look, rng) for height, width, _ in chosen]
            prompt = " ".join(
                filter(None, (prefix, text(max(1, _between(self.input_len, self.range_ratio, rng)), rng)))
            )
            output = max(1, _between(self.output_len, self.range_ratio, rng))
            yield Request([user_message(prompt, urls)], output)


def _between(middle: int, ratio: float, rng: Random) -> int:
    return rng.randint(math.floor(middle * (1 - ratio)), math.ceil(middle * (1 + ratio)))
