"""Twenty random cases: cost models of many kinds, workloads of several shapes, a rate relative to what is possible."""

from __future__ import annotations

from random import Random

from easerve.costs.base import ItemSize
from easerve.search.allocation import allocations
from easerve.search.demand import Demand, Shape
from easerve.search.loads import LoadModel
from easerve.search.space import Space

from .doubles import LinearCosts, Queues

SEEDS = range(20)
DEVICES = 8
GRID = {"batches": (4,), "ratios": (0.25, 0.5, 0.75, 1.0), "rules": ("greedy",)}


def case(seed: int, load: float, most: int = 1000) -> tuple[LoadModel, Queues]:
    """Objectives are five times the unloaded TTFT and three times the unloaded TPOT; at a `load` of 1 the best-balanced
    allocation has nothing to spare. Runs are long beside the time of an answer: what is overloaded shows."""
    rng = Random(seed)
    costs = {1: _costs(rng)}
    shape = _shape(rng)
    times = LoadModel(costs, Demand(shape, 1.0)).times(1)
    ttft = 5 * (times.batch(round(shape.items)) + times.first_token())
    tpot = 3 * times.step(1)
    rate = 1.0
    for _ in range(10):
        model = LoadModel(costs, Demand(shape, rate, ttft, tpot))
        rate *= load / min(model.balanced(one, space(model)).load for one in space(model).allocations)
    answer = ttft + tpot * shape.output_tokens
    demand = Demand(shape, rate, ttft, tpot)
    return LoadModel(costs, demand), Queues(costs, demand, min(most, max(150, round(5 * rate * answer))))


def space(model: LoadModel) -> Space:
    found = list(allocations(DEVICES, [1], model.fits))
    return Space(found, frozenset(one for one in found if model.local(one)), **GRID)  # type: ignore[arg-type]


def _costs(rng: Random) -> LinearCosts:
    return LinearCosts(
        batch=rng.uniform(0.005, 0.1),
        patch_token=10 ** rng.uniform(-4.5, -3.3),
        step_base=rng.uniform(0.01, 0.04),
        prompt_token=10 ** rng.uniform(-4.6, -3.6),
        sequence=10 ** rng.uniform(-4, -3),
        knee=rng.uniform(0.2, 1),
    )


def _shape(rng: Random) -> Shape:
    items, tokens = rng.choice((1, 2, 4, 10)), rng.choice((64, 256, 729))
    return Shape(
        items, ItemSize(4 * tokens, tokens), items * tokens + rng.choice((64, 512, 2000)), rng.choice((16, 32, 96))
    )
