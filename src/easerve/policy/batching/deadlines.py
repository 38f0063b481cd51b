"""The earliest deadline among queued items, which may leave the queue in any order."""

from __future__ import annotations

import math
from collections.abc import Container
from heapq import heapify, heappop, heappush
from typing import Protocol


class _Queued(Container[int], Protocol):
    def __len__(self) -> int: ...


class Deadlines:
    """Deadlines by ticket; who has left is found out from `queued`, the tickets in the queue, when it matters.

    A deadline later than all others costs O(1), any other at most the logarithm of their number. (A monotone queue
    would be O(1) always, but loses deadlines when items leave out of turn.)
    """

    def __init__(self, queued: _Queued) -> None:
        self._queued = queued
        self._heap: list[tuple[float, int]] = []

    def push(self, ticket: int, deadline: float) -> None:
        if len(self._heap) > 2 * len(self._queued) + 16:
            self._heap = [entry for entry in self._heap if entry[1] in self._queued]
            heapify(self._heap)
        heappush(self._heap, (deadline, ticket))

    def earliest(self) -> float:
        """Infinity if nothing queued has a deadline."""
        heap = self._heap
        while heap and heap[0][1] not in self._queued:
            heappop(heap)
        return heap[0][0] if heap else math.inf
