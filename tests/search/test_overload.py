"""More requests than any deployment can serve: what is kept of the objectives, and that stage one goes by it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.costs.base import ItemSize
from easerve.search.allocation import Allocation
from easerve.search.demand import Demand, Shape
from easerve.search.loads import LoadModel
from easerve.search.outcome import NOISE
from easerve.search.overload import in_time
from easerve.search.prune import TOLERATED, kept, prune
from easerve.search.space import Candidate

from .cases import case, space
from .doubles import LinearCosts

APART = Candidate(Allocation("e-p-d", 2, 1, 1), 1, 1.0, "greedy")
COSTS = LinearCosts(batch=0.05, patch_token=0.0, step_base=0.0, prompt_token=1e-4, sequence=1e-4, context_token=0.0)
SHAPE = Shape(1.0, ItemSize(1024, 256), 2000, 11)  # 50 ms to encode, 200 ms to prefill, 1 ms to decode

CASES = [(seed, load) for load in (1.2, 1.5) for seed in (4, 8, 14)]


@pytest.mark.parametrize(("seed", "load"), CASES)
def test_the_best_in_overload_is_not_dropped_though_its_load_is_not_the_least(seed: int, load: float) -> None:
    """Cases whose best trial is of an allocation that loads alone drop."""
    model, trial = case(seed, load, most=600)
    everything = space(model)
    verdicts = prune(model, everything, trial.requests)
    balanced = {one.allocation for one in verdicts if one.balanced.load < TOLERATED * verdicts[0].balanced.load}
    alive = {one.allocation for one in kept(verdicts)}
    goodput: dict[Allocation, float] = {}
    for one in everything:
        goodput[one.allocation] = max(goodput.get(one.allocation, 0.0), trial(one, seed).goodput)
    best = max(goodput.values())
    assert max(goodput[one] for one in balanced) < (1 - NOISE) * best
    assert max(goodput[one] for one in alive) >= (1 - NOISE) * best
    assert balanced <= alive and len(alive) <= len(verdicts) / 2


@given(st.floats(0.05, 1.0), st.integers(1, 5000))
def test_below_a_load_of_one_all_are_in_time(load: float, requests: int) -> None:
    model = LoadModel({1: COSTS}, Demand(SHAPE, load / 0.2, ttft=1.0, tpot=0.05))
    assert in_time(model, APART, requests) == 1


@given(st.floats(1.1, 20), st.integers(100, 5000))
def test_behind_one_bottleneck_those_are_in_time_that_came_before_the_queue_had_grown(
    load: float, requests: int
) -> None:
    """The nth waits n times what prefill takes longer than arrivals are apart: N (1/X - 1/rate) at the end."""
    rate = load / 0.2
    model = LoadModel({1: COSTS}, Demand(SHAPE, rate, ttft=1.0, tpot=None))
    waits = 0.2 - 1 / rate
    slack = 1.0 - COSTS.encode([SHAPE.item]) - 0.2
    assert in_time(model, APART, requests) == pytest.approx(min(1.0, slack / waits / requests), rel=1e-2)


def test_of_two_ways_one_may_be_in_time() -> None:
    """Remote prefill has four times what it can do; whatever goes local is served as if nothing was."""
    model = LoadModel({1: COSTS}, Demand(SHAPE, 8.0, ttft=1.0, tpot=None))
    halves = replace(APART, allocation=Allocation("e-p-d", 6, 1, 1), ratio=0.5)
    loads = model.loads(halves)
    assert loads["prefill"] == pytest.approx(0.8, abs=0.01) and loads["local prefill"] < 1
    flooded = model.under(replace(model.demand, rate=24.0))
    loads = flooded.loads(halves)
    assert loads["prefill"] > 2 and loads["local prefill"] < 1
    assert in_time(flooded, halves, 100_000) == pytest.approx(0.5, abs=0.01)
    assert in_time(flooded, replace(halves, ratio=1.0), 100_000) < 0.01


def test_without_objectives_loads_alone_decide() -> None:
    model, trial = case(4, 1.5)
    free = model.under(replace(model.demand, ttft=None, tpot=None))
    verdicts = prune(free, space(free), trial.requests)
    least = verdicts[0].balanced.load
    assert least > 1
    assert all(bool(one.dropped) == (one.balanced.load >= TOLERATED * least) for one in verdicts)
