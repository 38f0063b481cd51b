"""Offload: the bounds that the counter keeps, exactly."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.policy.offload import MOST_OWED, OFFLOADS, Deficit, NoOffload, Offload, TokenDeficit, Where, make_offload

HALF = Fraction(1, 2)
ratios = st.fractions(0, 1, max_denominator=50)


def decide(offload: Offload, amount: int) -> list[bool]:
    return [offload.decide("image", 300) == "remote" for _ in range(amount)]


def longest_run(decisions: Iterable[bool], of: bool) -> int:
    return max((sum(1 for _ in run) for value, run in groupby(decisions) if value is of), default=0)


@pytest.mark.parametrize("s", [Fraction(n, 40) for n in range(1, 40)])
def test_deficit_keeps_within_half_a_request_and_its_runs_short(s: Fraction) -> None:
    decisions = decide(Deficit(s), 400)
    drift = [0 * s]
    for remote in decisions:
        drift.append(drift[-1] + remote - s)
    assert max(map(abs, drift)) <= HALF
    assert max(drift) - min(drift) <= 1  # so any window of m requests has s * m of them remote, give or take one
    assert longest_run(decisions, True) <= ceil(s / (1 - s))
    assert longest_run(decisions, False) <= ceil((1 - s) / s)


@given(st.lists(ratios, max_size=200))
def test_deficit_keeps_within_half_a_request_while_the_ratio_changes(changing: list[Fraction]) -> None:
    offload, drift = Deficit(HALF), Fraction(0)
    for s in changing:
        offload.remote_ratio = s
        drift += (offload.decide("image", 300) == "remote") - s
        assert abs(drift) <= HALF


@given(st.lists(st.tuples(ratios, st.integers(1, 5000)), max_size=200))
def test_token_deficit_keeps_within_half_of_the_largest_request(requests: list[tuple[Fraction, int]]) -> None:
    offload, drift, largest = TokenDeficit(HALF), Fraction(0), 0
    for s, tokens in requests:
        offload.remote_ratio = s
        drift += tokens * ((offload.decide("image", tokens) == "remote") - s)
        largest = max(largest, tokens)
        assert 2 * abs(drift) <= largest


def test_floats_keep_the_ratio_too() -> None:
    assert abs(sum(decide(Deficit(0.3), 100_000)) - 30_000) <= 1


@pytest.mark.parametrize("name", ["deficit", "token_deficit"])
@pytest.mark.parametrize("s", [0, 1, 0.0, 1.0])
def test_nothing_and_everything_are_absolute_whatever_is_owed(name: str, s: float) -> None:
    offload = make_offload(name, HALF)
    sides: list[tuple[Where, Where]] = [("local", "remote"), ("remote", "local")]
    for actual, other in sides:
        offload.remote_ratio = HALF
        for _ in range(5):
            offload.settle("image", 300, other, actual)
        offload.remote_ratio = s
        assert decide(offload, 10) == [s == 1] * 10


def test_modalities_are_counted_apart() -> None:
    offload = Deficit(HALF)
    both = [offload.decide(modality, 300) for _ in range(3) for modality in ("image", "video")]
    assert both == ["remote", "remote", "local", "local", "remote", "remote"]


@pytest.mark.parametrize("kind", [Deficit, TokenDeficit])
def test_single_overrides_are_made_good(kind: type[Deficit]) -> None:
    offload, remote = kind(Fraction(1, 4)), 0
    for index in range(400):
        decided = offload.decide("image", 300)
        actual: Where = "local" if decided == "remote" and index % 10 == 0 else decided
        offload.settle("image", 300, decided, actual)
        remote += actual == "remote"
    assert abs(remote - 100) <= 2


@given(ratios, st.lists(st.booleans(), max_size=60), st.sampled_from([Deficit, TokenDeficit]))
def test_after_an_outage_the_recovery_is_no_burst(s: Fraction, down: list[bool], kind: type[Deficit]) -> None:
    offload = kind(s)
    for remote_is_down in down:
        actual: Where = "local" if remote_is_down else "remote"
        offload.settle("image", 300, offload.decide("image", 300), actual)
    drift = sum(remote - s for remote in decide(offload, 200))
    assert abs(drift) <= MOST_OWED + HALF + HALF


def test_an_override_of_a_small_request_does_not_forgive_what_a_large_one_is_owed() -> None:
    offload = TokenDeficit(HALF)
    offload.settle("image", 1000, "remote", "local")
    offload.settle("image", 10, "remote", "local")
    assert [offload.decide("image", 900) for _ in range(4)] == ["remote", "remote", "remote", "local"]


def test_no_offload_is_always_remote() -> None:
    assert decide(NoOffload(0.2), 5) == [True] * 5


def test_names_and_ratios_that_are_none_are_refused() -> None:
    assert set(OFFLOADS) == {"deficit", "token_deficit", "none"}
    with pytest.raises(ValueError, match="'random'; there are deficit"):
        make_offload("random", 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        make_offload("deficit", 1.5)
