"""Which outcome is better, and when to stop looking."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from easerve.search.outcome import Outcome, rank, score
from easerve.search.stopping import StopRules, best_first

seconds = st.one_of(st.floats(1e-4, 1e5), st.just(math.inf))
outcomes = st.builds(Outcome, goodput=st.floats(0, 1e4), throughput=st.floats(0, 1e4), ttft=seconds, tpot=seconds)


def good(goodput: float, ttft: float = 1.0, tpot: float = 0.05) -> Outcome:
    return Outcome(goodput, 10.0, ttft, tpot)


@given(outcomes, outcomes)
def test_a_score_orders_as_the_rank_does(one: Outcome, other: Outcome) -> None:
    for objective in ("goodput", "throughput"):
        ranks = rank(one, objective), rank(other, objective)
        scores = score(one, objective), score(other, objective)
        assert (ranks[0] < ranks[1]) == (scores[0] < scores[1])
        assert (ranks[0] == ranks[1]) == (scores[0] == scores[1])


@given(outcomes, st.floats(1.03, 100))
def test_more_than_the_noise_decides_whatever_the_latencies(one: Outcome, factor: float) -> None:
    worse = Outcome(one.goodput, one.throughput, 1e-3, 1e-3)
    better = Outcome(max(one.goodput, 1e-6) * factor, one.throughput, one.ttft, one.tpot)
    assert rank(better, "goodput") > rank(worse, "goodput")


def test_within_the_noise_ttft_decides_then_tpot() -> None:
    assert rank(good(4.05, ttft=1.0), "goodput") > rank(good(4.06, ttft=1.1), "goodput")
    assert rank(good(4.05, 1.0, 0.05), "goodput") > rank(good(4.06, 1.001, 0.06), "goodput")
    assert rank(good(4.05), "throughput") == rank(good(1.00), "throughput")


def test_it_stops_when_the_top_three_are_settled() -> None:
    rules = StopRules(starts=3, stalled=99)
    tried = [good(5), good(4), good(3)]
    for number in range(5):
        assert rules.reason([*tried, *[good(1)] * number], "goodput") == ""
    assert "same for 6" in rules.reason([*tried, *[good(1)] * 6], "goodput")
    assert rules.reason([*tried, *[good(1)] * 5, good(3.5)], "goodput") == ""


def test_it_stops_when_nothing_is_gained_though_places_change() -> None:
    rules = StopRules(starts=3, settled=99)
    tried = [good(5), good(4), good(3)]
    creeping = [good(5 + 0.005 * step) for step in range(1, 9)]
    assert rules.reason([*tried, *creeping[:7]], "goodput") == ""
    assert "gained" in rules.reason([*tried, *creeping], "goodput")
    assert rules.reason([*tried, *creeping[:7], good(5.06)], "goodput") == ""


def test_it_never_judges_before_the_starts_are_done_and_never_exceeds_the_most() -> None:
    assert StopRules(starts=20).reason([good(1)] * 20, "goodput") == ""
    assert StopRules(most=4, starts=20).reason([good(1)] * 4, "goodput") == "4 trials"


@given(st.lists(outcomes, max_size=12))
def test_the_best_come_first(found: list[Outcome]) -> None:
    order = best_first(found, "goodput")
    assert sorted(order) == list(range(len(found)))
    ranks = [rank(found[place], "goodput") for place in order]
    assert ranks == sorted(ranks, reverse=True)
