"""When encode starts, and with how many items.

A `BatchRule` says how long the queue may be held; the `Batcher` keeps the queue and enforces the bound on items.
Both are told the time. The caller asks only when a worker is free: while all are busy, waiting costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class QueueState:
    """What a rule may look at: items waiting, and the arrival times of the oldest and the newest of them."""

    pending: int
    first: float
    last: float


class BatchRule(Protocol):
    """Until when to hold a queue that has not reached the bound."""

    def hold_until(self, queue: QueueState) -> float:
        """Time at which the queue should be dispatched if nothing else arrives; the past means now."""
        ...


class Greedy:
    """Never hold: whatever is queued when a worker is free goes out (the gap rule at c = 0)."""

    def hold_until(self, queue: QueueState) -> float:
        return queue.first


RULES: dict[str, Callable[[], BatchRule]] = {"greedy": Greedy}


class Batcher(Generic[T]):
    """A first-in, first-out queue that knows when its head should become a batch.

    `max_items` is the batch bound B. All operations are O(1) per item.
    """

    def __init__(self, rule: BatchRule, max_items: int) -> None:
        if max_items < 1:
            raise ValueError(f"the batch bound must be at least 1, not {max_items}")
        self._rule = rule
        self._max_items = max_items
        self._queue: OrderedDict[int, tuple[T, float]] = OrderedDict()
        self._next_ticket = 0
        self._last_arrival = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def push(self, item: T, now: float) -> int:
        """Queue an item; the ticket takes it out again through `remove`."""
        ticket = self._next_ticket
        self._next_ticket += 1
        self._queue[ticket] = (item, now)
        self._last_arrival = now
        return ticket

    def remove(self, ticket: int) -> bool:
        """Take an item out of the queue; False if it has left already."""
        return self._queue.pop(ticket, None) is not None

    def ready_at(self) -> float | None:
        """When the head should be dispatched to a free worker; None with an empty queue."""
        if not self._queue:
            return None
        first = next(iter(self._queue.values()))[1]
        if len(self._queue) >= self._max_items:
            return first
        return self._rule.hold_until(QueueState(len(self._queue), first, self._last_arrival))

    def take(self) -> list[T]:
        """The next batch: the oldest items, at most the bound."""
        size = min(self._max_items, len(self._queue))
        return [self._queue.popitem(last=False)[1][0] for _ in range(size)]

    def take_all(self) -> list[T]:
        """Everything queued, for a pool that can serve none of it."""
        items = [item for item, _ in self._queue.values()]
        self._queue.clear()
        return items
