"""The batching rules: never beyond the age cap, and as the closed forms say."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching import RULES, BatchOptions, BatchRule, QueueState, make_rule
from easerve.policy.service import ServiceTime
from tests.policy.arrivals import Served, gamma, mean_hold, mean_size, mean_wait, poisson, run, serve

RATE = 40.0
FOREVER = 1e9


def rule(name: str, rate: ArrivalRate | None = None, **options: float) -> BatchRule:
    known = rate or ArrivalRate(configured_rate=RATE)
    return make_rule(name, BatchOptions(**options), known, ServiceTime(0.03, 0.01))  # type: ignore[arg-type]


@given(
    st.sampled_from(sorted(RULES)),
    st.floats(0, 2),
    st.floats(0, 0.2),
    st.integers(1, 9),
    st.floats(0, 50),
    st.lists(st.floats(0, 0.3), min_size=1, max_size=40),
)
@settings(deadline=None)
def test_no_rule_holds_beyond_the_age_cap_or_exceeds_the_bound_or_changes_the_order(
    name: str, factor: float, cap: float, bound: int, price: float, gaps: list[float]
) -> None:
    times = list(accumulate(gaps))
    asked = rule(name, gap_factor=factor, age_cap=cap, age_window=factor, device_price=price, max_items=bound)
    batches = run(asked, bound, [*times, times[-1] + 1.0])
    assert [arrival for batch in batches for arrival in batch.arrivals][: len(times)] == times
    assert all(1 <= len(batch.arrivals) <= bound for batch in batches)
    assert all(batch.hold <= cap * (1 + 1e-9) + 1e-12 for batch in batches)


@pytest.mark.parametrize(("factor", "bound"), [(0.0, 8), (0.3, 2), (0.5, 8), (1.0, 4), (1.0, 16), (1.5, 8), (2.0, 16)])
def test_the_gap_rule_makes_the_batches_that_poisson_arrivals_imply(factor: float, bound: int) -> None:
    batches = run(rule("gap", gap_factor=factor, age_cap=FOREVER), bound, poisson(RATE, 150_000, 7))
    q = 1 - math.exp(-factor)
    expected = (1 - q**bound) / (1 - q)
    assert mean_size(batches) == pytest.approx(expected, rel=0.02)
    assert mean_hold(batches) == pytest.approx((expected - 1) / RATE, rel=0.02)


@pytest.mark.parametrize("name", ["gap", "count", "age", "control_limit"])
def test_the_hold_is_what_the_batch_gained_under_the_age_cap_too(name: str) -> None:
    batches = run(rule(name, age_cap=0.04, minimum=3), 6, poisson(RATE, 150_000, 3))
    assert mean_size(batches) > 1.2
    assert mean_hold(batches) == pytest.approx((mean_size(batches) - 1) / RATE, rel=0.02)


def test_at_equal_batches_of_poisson_arrivals_count_waits_least_and_gap_most() -> None:
    n, arrivals = 3, list(poisson(RATE, 200_000, 1))
    count = run(rule("count", age_cap=FOREVER), n, arrivals)
    age = run(rule("age", age_window=n - 1, age_cap=FOREVER), 1000, arrivals)
    gap = run(rule("gap", gap_factor=math.log(n), age_cap=FOREVER), 1000, arrivals)
    assert [mean_size(batches) for batches in (count, age, gap)] == pytest.approx([n] * 3, rel=0.02)
    waits = [(n - 1) / 2, (n**2 - 1) / (2 * n), n - 1]
    assert [mean_wait(batches) * RATE for batches in (count, age, gap)] == pytest.approx(waits, rel=0.03)


def test_at_equal_batches_of_bursty_arrivals_gap_waits_less_than_count() -> None:
    arrivals = list(gamma(RATE, 3.0, 100_000, 2))
    gap = run(rule("gap", gap_factor=0.5, age_cap=FOREVER), 1000, arrivals)
    count = run(rule("count", age_cap=FOREVER), round(mean_size(gap)), arrivals)
    assert mean_size(count) == pytest.approx(mean_size(gap), rel=0.1)
    assert mean_wait(gap) < 0.8 * mean_wait(count)


def served(name: str, service: ServiceTime, load: float, **options: float) -> Served:
    rate = load * 8 / service.predict(8)
    asked = make_rule(
        name,
        BatchOptions(age_cap=FOREVER, **options),  # type: ignore[arg-type]
        ArrivalRate(configured_rate=rate),
        service,
    )
    return serve(asked, 8, service, poisson(rate, 40_000, 3))


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_where_a_batch_hardly_gains_holding_only_costs(load: float) -> None:
    large_pictures = ServiceTime(0.05, 0.15)
    greedy = served("greedy", large_pictures, load)
    for name in ("gap", "age", "control_limit"):
        held = served(name, large_pictures, load)
        assert held.mean_seconds > 1.05 * greedy.mean_seconds
        assert held.busy > 0.8 * greedy.busy
    assert served("smdp", large_pictures, load) == greedy


def test_where_a_batch_gains_much_holding_buys_time_of_the_device() -> None:
    small_pictures = ServiceTime(0.18, 0.02)
    greedy = served("greedy", small_pictures, 0.5)
    for held in (served("gap", small_pictures, 0.5), served("smdp", small_pictures, 0.5, device_price=5.0)):
        assert held.mean_seconds < 1.25 * greedy.mean_seconds
        assert held.busy < 0.85 * greedy.busy


def test_the_rate_moves_the_threshold_and_an_unknown_one_holds_nothing() -> None:
    unknown = ArrivalRate()
    asked = rule("gap", unknown, gap_factor=0.5, age_cap=FOREVER)
    queue = QueueState(1, 1.0, 1.0)
    assert asked.hold_until(queue) == 1.0
    for now in (0.0, 8.0):
        unknown.observe(now)
    assert asked.hold_until(queue) == 5.0
    unknown.workers = 2
    assert asked.hold_until(queue) == 9.0


def test_the_smdp_rule_serves_from_the_best_limit_on() -> None:
    load, alpha, beta, bound = 0.5, 0.18, 0.02, 8
    rate = ArrivalRate(configured_rate=load * bound / (alpha + beta * bound))
    options = BatchOptions(device_price=5.0, max_items=bound, age_cap=FOREVER)
    asked = make_rule("smdp", options, rate, ServiceTime(alpha, beta))
    held = [asked.hold_until(QueueState(pending, 1.0, 2.0)) > 2.0 for pending in range(1, bound)]
    assert held == [pending < 4 for pending in range(1, bound)]


def test_names_and_options_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="'eager'; there are gap, greedy"):
        rule("eager")
    with pytest.raises(ValueError, match="gap factor must be between 0 and 2"):
        BatchOptions(gap_factor=2.5)
    with pytest.raises(ValueError, match="age_cap cannot be negative"):
        BatchOptions(age_cap=-1.0)
    with pytest.raises(ValueError, match="minimum must be at least 1"):
        BatchOptions(minimum=0)
