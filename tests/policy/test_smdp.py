"""The best control limit: the reference values, and against the exact cost of every control limit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.policy.batching import control_limit
from easerve.policy.batching.limits import LOADS, ControlLimits

PRICES = (0.0, 5.0, 20.0)


@pytest.mark.parametrize(
    ("alpha", "beta", "load", "expected"),
    [
        (0.15, 0.05, 0.1, [1, 1, 3]),
        (0.15, 0.05, 0.5, [1, 2, 5]),
        (0.15, 0.05, 0.9, [1, 2, 5]),
        (0.05, 0.15, 0.1, [1, 1, 1]),
        (0.05, 0.15, 0.5, [1, 1, 2]),
        (0.05, 0.15, 0.9, [1, 1, 1]),
        (0.18, 0.02, 0.5, [2, 4, 8]),
    ],
)
def test_reference_values(alpha: float, beta: float, load: float, expected: list[int]) -> None:
    rate = load * 8 / (alpha + 8 * beta)
    assert [control_limit(rate, alpha, beta, price, 8) for price in PRICES] == expected


def cost(limit: int, rate: float, alpha: float, beta: float, price: float, bound: int) -> float:
    """Cost per second of serving from `limit` on, from the queue lengths that services leave behind."""
    longest = 150
    arrivals = {size: _poisson(rate * (alpha + beta * size)) for size in range(limit, bound + 1)}
    left, change = [1.0] + [0.0] * longest, 1.0
    while change > 1e-9:
        after = [0.0] * (longest + 1)
        for queue, share in enumerate(left):
            start = max(queue, limit)
            size = min(start, bound)
            for arrived, probability in enumerate(arrivals[size]):
                after[min(longest, start - size + arrived)] += share * probability
        change = sum(abs(new - old) for new, old in zip(after, left, strict=True))
        left = after
    spent = passed = 0.0
    for queue, share in enumerate(left):
        start = max(queue, limit)
        seconds = alpha + beta * min(start, bound)
        spent += share * (sum(range(queue, start)) / rate + start * seconds + rate * seconds**2 / 2 + price * seconds)
        passed += share * ((start - queue) / rate + seconds)
    return spent / passed


def _poisson(mean: float) -> list[float]:
    return [math.exp(-mean) * mean**k / math.factorial(k) for k in range(60)]


@given(st.floats(0.02, 0.7), st.floats(0, 0.2), st.floats(0, 40), st.integers(1, 6))
@settings(max_examples=25, deadline=None)
def test_no_other_control_limit_costs_less(load: float, alpha: float, price: float, bound: int) -> None:
    beta = 0.2 - alpha
    rate = load * bound / (alpha + beta * bound)
    best = control_limit(rate, alpha, beta, price, bound)
    costs = {limit: cost(limit, rate, alpha, beta, price, bound) for limit in range(1, bound + 1)}
    assert costs[best] <= min(costs.values()) * (1 + 1e-6)


@pytest.mark.parametrize("price", PRICES)
@pytest.mark.parametrize("alpha", [0.03, 0.11, 0.16])
def test_the_grid_costs_next_to_nothing(alpha: float, price: float) -> None:
    beta, bound = 0.2 - alpha, 6
    limits = ControlLimits(price, bound)
    for load in (0.06, 0.23, 0.6):
        rate = load * bound / (alpha + beta * bound)
        exact = control_limit(rate, alpha, beta, price, bound)
        near = limits.limit(load, alpha, beta)
        assert cost(near, rate, alpha, beta, price, bound) <= 1.02 * cost(exact, rate, alpha, beta, price, bound)


def test_the_grid_answers_for_any_load_and_shape() -> None:
    limits = ControlLimits(5.0, 8)
    assert limits.limit(0.0, 0.1, 0.1) == limits.limit(LOADS[0], 0.1, 0.1) == 1
    assert limits.limit(math.inf, 0.1, 0.1) == limits.limit(LOADS[-1], 0.1, 0.1)
    assert limits.limit(0.3, 0.1, 0.0) >= limits.limit(0.3, 0.0, 0.1) == 1


@pytest.mark.parametrize("rate", [0.0, 10.0])
def test_a_load_that_no_queue_survives_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="load must be above 0 and below 1"):
        control_limit(rate, 0.0, 0.1, 0.0, 8)
