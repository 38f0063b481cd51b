"""Placement and admission."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.policy.admission import Admission
from easerve.policy.placement import LeastPending, Load, RoundRobin, sooner_elsewhere

loads = st.dictionaries(
    st.sampled_from("abcd"), st.builds(Load, st.integers(0, 50), st.sampled_from([1.0, 2.0, 8.0])), min_size=1
)


@given(loads, st.integers(0, 50))
def test_least_pending_takes_the_worker_that_is_through_first_and_the_first_of_equals(
    workers: dict[str, Load], tokens: float
) -> None:
    chosen = LeastPending().choose(workers, tokens)
    ends = {name: (load.pending_tokens + tokens) / (load.tokens_per_second or 1) for name, load in workers.items()}
    assert chosen == next(name for name in workers if ends[name] == min(ends.values()))
    assert not sooner_elsewhere(workers, chosen, tokens)
    assert all(sooner_elsewhere(workers, name, tokens) == (ends[name] > ends[chosen]) for name in workers)


def test_a_fast_worker_is_worth_waiting_for_by_large_pieces_only() -> None:
    workers = {"slow": Load(0, 10.0), "fast": Load(100, 100.0)}
    assert LeastPending().choose(workers, 5) == "slow"
    assert LeastPending().choose(workers, 50) == "fast"


@pytest.mark.parametrize("unknown", [None, 0.0])
def test_an_unknown_rate_counts_as_the_mean_of_the_known_ones(unknown: float | None) -> None:
    workers = {"a": Load(40, 10.0), "b": Load(60, 30.0), "new": Load(45, unknown)}
    assert LeastPending().choose(workers) == "b"  # 4, 2 and 45 / 20 seconds
    assert LeastPending().choose({**workers, "new": Load(39, unknown)}) == "new"
    assert LeastPending().choose({"a": Load(3, None), "b": Load(2, None)}) == "b"


def test_round_robin_takes_each_in_turn() -> None:
    placement = RoundRobin()
    workers = {"a": Load(9, 1.0), "b": Load(0, 1.0)}
    assert [placement.choose(workers) for _ in range(4)] == ["a", "b", "a", "b"]


def test_admission_takes_up_to_its_limit_and_again_after_a_leave() -> None:
    admission = Admission(2)
    assert [admission.try_enter() for _ in range(3)] == [True, True, False]
    admission.leave()
    assert admission.try_enter()
