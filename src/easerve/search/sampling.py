"""The mean request of a workload, from a sample of its requests; nothing is drawn but sizes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from random import Random
from statistics import fmean

from easerve.bench.drawing import SKETCHED
from easerve.bench.workloads import Workload
from easerve.costs.base import ItemSize
from easerve.errors import BadRequest
from easerve.search.demand import Shape
from easerve.simulate.requests import sizes
from easerve.simulate.server import World

SAMPLE = 200


@dataclass(frozen=True)
class Sample:
    """The mean request, and the most media items that any of them had."""

    shape: Shape
    most_items: int


def sample(workload: Workload, world: World) -> Sample:
    """In this world's sizes and tokens. Raises BadRequest for no requests, and for such as have no size."""
    found = [sizes(one, world.text) for one in islice(workload.requests(Random(0), SKETCHED), SAMPLE)]
    if not found:
        raise BadRequest("the workload has no requests")
    media = [[world.item(item) for item in one.media] for one in found]
    items = [item for one in media for item in one]
    prompts = [
        one.text_tokens + sum(item.tokens for item in its_items) for one, its_items in zip(found, media, strict=True)
    ]
    shape = Shape(
        items=len(items) / len(found),
        item=_mean(items),
        prompt_tokens=round(fmean(prompts)),
        output_tokens=max(2, round(fmean(one.output_tokens for one in found))),
        media_share=sum(map(bool, media)) / len(media),
    )
    return Sample(shape, max(map(len, media)))


def _mean(items: list[ItemSize]) -> ItemSize:
    if not items:
        return ItemSize(0, 0)
    return ItemSize(
        round(fmean(item.patches for item in items)),
        round(fmean(item.tokens for item in items)),
        round(fmean(item.frames for item in items)),
    )
