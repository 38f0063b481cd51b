"""Which worker of a pool takes a piece of work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Placement(Protocol):
    """Chooses among workers by what each still has to do."""

    def choose(self, pending: Mapping[str, float]) -> str:
        """Name of the worker to use. `pending` maps each live worker to its load (tokens, items); never empty."""
        ...


class LeastPending:
    """The worker with the least work waiting; the first named wins a tie."""

    def choose(self, pending: Mapping[str, float]) -> str:
        return min(pending, key=lambda name: pending[name])


class RoundRobin:
    """Each worker in turn, whatever its load."""

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, pending: Mapping[str, float]) -> str:
        names = list(pending)
        self._turn += 1
        return names[(self._turn - 1) % len(names)]


PLACEMENTS: dict[str, Callable[[], Placement]] = {"least_pending": LeastPending, "round_robin": RoundRobin}
