"""Which media a model takes, and what its encoder sees of an item. Models take pictures or sound, none both."""

from __future__ import annotations

from functools import cache

from easerve.bench.clips import RATE
from easerve.costs.base import ItemSize
from easerve.costs.pictures import SizeOf, audio_size, hears, picture_size
from easerve.request import Modality


def media_size(model: str) -> tuple[Modality, SizeOf]:
    """Sound is sized as one row of samples, `RATE` a second. Raises StartupError for a model that is not known."""
    if not hears(model):
        return "image", cache(picture_size(model))  # a workload has few sizes, and they are asked for at every stage
    clip = audio_size(model)

    def size(height: int, width: int) -> ItemSize:
        return clip(height * width / RATE)

    return "audio", size
