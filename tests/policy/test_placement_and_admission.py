"""Placement and admission."""

from __future__ import annotations

from easerve.policy.admission import Admission
from easerve.policy.placement import LeastPending, RoundRobin


def test_least_pending_takes_the_least_loaded_worker_and_the_first_of_equals() -> None:
    placement = LeastPending()
    assert placement.choose({"a": 3, "b": 1, "c": 1}) == "b"


def test_round_robin_takes_each_in_turn() -> None:
    placement = RoundRobin()
    assert [placement.choose({"a": 9, "b": 0}) for _ in range(4)] == ["a", "b", "a", "b"]


def test_admission_takes_up_to_its_limit_and_again_after_a_leave() -> None:
    admission = Admission(2)
    assert [admission.try_enter() for _ in range(3)] == [True, True, False]
    admission.leave()
    assert admission.try_enter()
