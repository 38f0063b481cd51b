"""Restarting: at once, then ever later, then not at all."""

from __future__ import annotations

from easerve.policy.restart import RestartRule


def test_delays_double_up_to_the_longest_and_end_with_giving_up() -> None:
    rule = RestartRule(most_in_a_row=8, first_delay=0.5, longest_delay=6.0)
    assert [rule.delay(deaths) for deaths in range(1, 10)] == [0.0, 0.5, 1.0, 2.0, 4.0, 6.0, 6.0, 6.0, None]


def test_no_restarts_at_all() -> None:
    assert RestartRule(most_in_a_row=0).delay(1) is None
