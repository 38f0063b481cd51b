"""The batcher: order, bound, removal, and the rule's say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.policy.batching import Batcher, Greedy, QueueState

operations = st.lists(st.one_of(st.just("push"), st.just("take"), st.integers(0, 40)), max_size=60)


class Window:
    """A rule that holds for a fixed time after the first arrival."""

    def hold_until(self, queue: QueueState) -> float:
        return queue.first + 10


@given(operations, st.integers(1, 5))
def test_takes_the_oldest_first_and_never_more_than_the_bound(todo: list[str | int], bound: int) -> None:
    batcher: Batcher[int] = Batcher(Greedy(), bound)
    model: dict[int, int] = {}  # ticket: item
    for now, operation in enumerate(todo):
        if operation == "push":
            model[batcher.push(now, now)] = now
        elif operation == "take":
            expected = list(model)[:bound]
            assert batcher.take() == [model.pop(ticket) for ticket in expected]
        else:
            assert batcher.remove(int(operation)) == (model.pop(int(operation), None) is not None)
        assert len(batcher) == len(model)
        assert (batcher.ready_at() is None) == (not model)


def test_a_full_batch_is_due_at_once_and_a_partial_one_when_the_rule_says() -> None:
    batcher: Batcher[str] = Batcher(Window(), 2)
    batcher.push("a", 3.0)
    assert batcher.ready_at() == 13.0
    batcher.push("b", 5.0)
    assert batcher.ready_at() == 3.0


def test_greedy_never_holds() -> None:
    batcher: Batcher[str] = Batcher(Greedy(), 8)
    batcher.push("a", 3.0)
    assert batcher.ready_at() == 3.0


def test_a_bound_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Batcher(Greedy(), 0)
