"""The batcher against a plain list: order, bound, budget, removal, deadlines and the rule's say."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from easerve.policy.batching import Batcher, Greedy, QueueState

HOLD = 10.0


class Window:
    """Holds for a fixed time after the newest arrival, and notes what it was shown."""

    def __init__(self) -> None:
        self.seen: QueueState | None = None

    def hold_until(self, queue: QueueState) -> float:
        self.seen = replace(queue)
        return queue.last + HOLD


@dataclass
class Waiting:
    ticket: int
    arrival: float
    tokens: int
    latest: float


class BatcherMachine(RuleBasedStateMachine):
    @initialize(max_items=st.integers(1, 6), max_tokens=st.none() | st.integers(1, 12))
    def start(self, max_items: int, max_tokens: int | None) -> None:
        self.max_items, self.max_tokens = max_items, max_tokens or math.inf
        self.rule = Window()
        self.batcher: Batcher[int] = Batcher(self.rule, max_items, max_tokens)
        self.queue: list[Waiting] = []
        self.now = 0.0
        self.pushed = 0

    @rule(
        later=st.integers(0, 5),
        tokens=st.integers(0, 8),
        slack=st.integers(-5, 40) | st.just(math.inf),
        n=st.integers(1, 3),
    )
    def push(self, later: float, tokens: int, slack: float, n: int) -> None:
        self.now += later
        for _ in range(n):
            ticket = self.batcher.push(self.pushed, self.now, tokens, self.now + slack)
            assert ticket == self.pushed  # so that items and tickets can be compared below
            self.pushed += 1
            self.queue.append(Waiting(ticket, self.now, tokens, self.now + slack))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        ticket = data.draw(st.integers(0, self.pushed))
        there = [one for one in self.queue if one.ticket == ticket]
        assert self.batcher.remove(ticket) == bool(there)
        self.queue = [one for one in self.queue if one.ticket != ticket]

    @rule()
    def take(self) -> None:
        expected: list[Waiting] = []
        while self.queue and len(expected) < self.max_items:
            if expected and sum(one.tokens for one in [*expected, self.queue[0]]) > self.max_tokens:
                break
            expected.append(self.queue.pop(0))
        assert self.batcher.take(self.now) == [one.ticket for one in expected]

    @rule()
    def take_all(self) -> None:
        assert self.batcher.take_all() == [one.ticket for one in self.queue]
        self.queue = []

    @invariant()
    def same_queue_and_due_when_it_should(self) -> None:
        tokens = sum(one.tokens for one in self.queue)
        assert (len(self.batcher), self.batcher.tokens) == (len(self.queue), tokens)
        due = self.batcher.ready_at()
        if not self.queue:
            assert due is None
        elif len(self.queue) >= self.max_items or tokens >= self.max_tokens:
            assert due is not None and due <= self.now
        else:
            first, last = self.queue[0].arrival, self.queue[-1].arrival
            assert self.rule.seen == QueueState(len(self.queue), first, last, tokens)
            assert due == min(last + HOLD, *(one.latest for one in self.queue))


TestBatcher = BatcherMachine.TestCase
TestBatcher.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_deadlines_of_items_long_gone_are_forgotten() -> None:
    batcher: Batcher[int] = Batcher(Greedy(), 1)
    batcher.push(-1, 0.0, latest_start=0.0)  # keeps the others' from coming to the top
    for item in range(5000):
        batcher.remove(batcher.push(item, 0.0, latest_start=1.0))
    assert len(batcher._deadlines._heap) < 50


@pytest.mark.parametrize(("items", "tokens"), [(0, None), (1, 0)])
def test_bounds_below_one_are_refused(items: int, tokens: int | None) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Batcher(Greedy(), items, tokens)
