"""The queue in front of encode: what is in it, when its head becomes a batch, and which items that has."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Generic, TypeVar

from easerve.policy.batching.deadlines import Deadlines
from easerve.policy.batching.rules import BatchRule, QueueState

T = TypeVar("T")


class Batcher(Generic[T]):
    """A first-in, first-out queue that knows when its head should become a batch.

    A batch is due at once when `max_items` (the bound B) or `max_tokens` tokens wait; otherwise when the rule says, and
    no later than the smallest `latest_start` queued. Ask only while a worker is free: while all are busy, waiting costs
    nothing. Times are in seconds and never go back. Every call is O(1) per item; for finite deadlines see `Deadlines`.
    """

    def __init__(self, rule: BatchRule, max_items: int, max_tokens: int | None = None) -> None:
        if max_items < 1:
            raise ValueError(f"the batch bound must be at least 1 item, not {max_items}")
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"the token budget of a batch must be at least 1, not {max_tokens}")
        self._rule = rule
        self._max_items = max_items
        self._max_tokens: float = math.inf if max_tokens is None else max_tokens
        self._queue: OrderedDict[int, tuple[T, float, int]] = OrderedDict()  # by ticket: item, arrival, tokens
        self._state = QueueState(0, 0.0, 0.0)
        self._deadlines = Deadlines(self._queue)
        self._next_ticket = 0

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def tokens(self) -> int:
        """Tokens queued."""
        return self._state.tokens

    def head_tokens(self) -> int:
        """Tokens of the batch that `take` would give now."""
        total = 0
        for count, (_, _, tokens) in enumerate(self._queue.values()):
            if count == self._max_items or (count and total + tokens > self._max_tokens):
                break
            total += tokens
        return total

    def push(self, item: T, now: float, tokens: int = 1, latest_start: float = math.inf) -> int:
        """Queue an item; the ticket takes it out again through `remove`.

        `latest_start` is when its request's objective needs it to start; it may lie in the past.
        """
        ticket, state = self._next_ticket, self._state
        self._next_ticket += 1
        self._queue[ticket] = (item, now, tokens)
        if not state.pending:
            state.first = now
        state.last = now
        state.pending += 1
        state.tokens += tokens
        if latest_start < math.inf:
            self._deadlines.push(ticket, latest_start)
        return ticket

    def remove(self, ticket: int) -> bool:
        """Take an item out of the queue; False if it has left already."""
        entry = self._queue.pop(ticket, None)
        if entry is None:
            return False
        self._update(self._state.tokens - entry[2])
        return True

    def ready_at(self) -> float | None:
        """When the head should be dispatched to a free worker, which may be past; None with an empty queue."""
        state = self._state
        if not state.pending:
            return None
        if state.pending >= self._max_items or state.tokens >= self._max_tokens:
            return state.first
        wanted, latest = self._rule.hold_until(state), self._deadlines.earliest()
        return latest if latest < wanted else wanted

    def take(self, now: float) -> list[T]:
        """The next batch, due or not: the oldest items within bound and budget, and at least one if there is any.

        `now` is when it leaves; no rule of today's learns from that.
        """
        items: list[T] = []
        queue, tokens = self._queue, 0
        while queue and len(items) < self._max_items:
            ticket, entry = queue.popitem(last=False)
            if items and tokens + entry[2] > self._max_tokens:
                queue[ticket] = entry
                queue.move_to_end(ticket, last=False)
                break
            tokens += entry[2]
            items.append(entry[0])
        self._update(self._state.tokens - tokens)
        return items

    def take_all(self) -> list[T]:
        """Everything queued, for a pool that can serve none of it."""
        items = [item for item, _, _ in self._queue.values()]
        self._queue.clear()
        self._update(0)
        return items

    def _update(self, tokens: int) -> None:
        """Items have left: what is there now speaks for itself."""
        queue, state = self._queue, self._state
        state.pending = len(queue)
        state.tokens = tokens
        if queue:
            state.first = next(iter(queue.values()))[1]
            state.last = next(reversed(queue.values()))[1]
