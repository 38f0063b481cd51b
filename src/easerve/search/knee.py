"""The rate that a plan is made for when none is asked for: what the best-balanced allocation just carries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from easerve.costs.base import StageCosts
from easerve.search.demand import Demand
from easerve.search.loads import LoadModel
from easerve.search.space import Space

LOAD = 0.9  # of its bottleneck: below the knee, and near enough for allocations to differ
ROUNDS = 4  # loads are nearly proportional to the rate


def sustained(costs: Mapping[int, StageCosts], demand: Demand, space: Space) -> float:
    """Requests a second, to two digits; the demand's own rate is where the search begins."""
    coarse = replace(space, batches=(1, 8), ratios=(0.25, 0.5, 0.75, 1.0))
    rate = demand.rate
    for _ in range(ROUNDS):
        model = LoadModel(costs, replace(demand, rate=rate))
        rate *= LOAD / min(model.balanced(one, coarse).load for one in space.allocations)
    return float(f"{rate:.2g}")
