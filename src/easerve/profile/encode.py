"""Encode by size of picture and batch."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from easerve.costs.base import ItemSize
from easerve.costs.pictures import SizeOf
from easerve.costs.profile_file import EncodeTime
from easerve.engine.base import Encoder
from easerve.profile.plan import Plan
from easerve.profile.timing import Stopwatch


def encode_times(encoder: Encoder, size_of: SizeOf, plan: Plan, watch: Stopwatch) -> Iterator[EncodeTime]:
    """Batches of equal pictures. Sides that the model's processor brings to the same size are measured once."""
    generator = np.random.default_rng(0)
    for side, size in _sizes(plan, size_of):
        picture = generator.integers(0, 256, (side, side, 3), dtype=np.uint8)
        expected = 0.0
        for batch in plan.batches:
            if watch.too_long(expected, plan.patience):
                break
            seconds = watch.median(partial(encoder.encode, [picture] * batch))
            expected = 2 * seconds
            yield EncodeTime(size.patches, size.tokens, batch, seconds)


def _sizes(plan: Plan, size_of: SizeOf) -> Iterator[tuple[int, ItemSize]]:
    seen: set[int] = set()
    for side in plan.sides:
        size = size_of(side, side)
        if size.patches not in seen:
            seen.add(size.patches)
            yield side, size
