"""The rate that a plan is made for when none is asked for: what the best-balanced allocation just carries."""

from __future__ import annotations

from dataclasses import replace

from easerve.search.loads import LoadModel
from easerve.search.space import Space

LOAD = 0.9  # of its bottleneck: below the knee, and near enough for allocations to differ
ROUNDS = 4  # loads are nearly proportional to the rate


def sustained(model: LoadModel, space: Space) -> float:
    """Requests a second, to two digits; the rate of the model's demand is where the search begins."""
    coarse = replace(space, batches=(1, 8), ratios=(0.25, 0.5, 0.75, 1.0))
    rate = model.demand.rate
    for _ in range(ROUNDS):
        model = model.under(replace(model.demand, rate=rate))
        rate *= LOAD / min(model.balanced(one, coarse).load for one in space.allocations)
    return float(f"{rate:.2g}")
