"""Which worker of a pool takes a piece of work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol


class Load(NamedTuple):
    """What a worker still has to do, and how fast it is; a rate of None (or 0) is not known yet."""

    pending_tokens: float
    tokens_per_second: float | None


class Placement(Protocol):
    """Chooses among workers by their loads."""

    def choose(self, loads: Mapping[str, Load], tokens: float = 0.0) -> str:
        """Name of the worker for a piece of `tokens`. `loads` has every live worker and is never empty."""
        ...


class LeastPending:
    """The worker that would be through first with what it has and the new piece; the first named wins a tie."""

    def choose(self, loads: Mapping[str, Load], tokens: float = 0.0) -> str:
        best, least = "", math.inf
        for name, (pending, rate) in loads.items():
            seconds = (pending + tokens) / (rate or _usual_rate(loads))
            if seconds < least or not best:
                best, least = name, seconds
        return best


class RoundRobin:
    """Each worker in turn, whatever its load."""

    def __init__(self) -> None:
        self._turn = 0

    def choose(self, loads: Mapping[str, Load], tokens: float = 0.0) -> str:
        names = list(loads)
        self._turn += 1
        return names[(self._turn - 1) % len(names)]


PLACEMENTS: dict[str, Callable[[], Placement]] = {"least_pending": LeastPending, "round_robin": RoundRobin}


def sooner_elsewhere(loads: Mapping[str, Load], name: str, tokens: float) -> bool:
    """Whether another worker, after what it has to do, would still be through with `tokens` before `name` is."""
    usual = _usual_rate(loads)
    pending, rate = loads[name]
    here = (pending + tokens) / (rate or usual)
    return any((load[0] + tokens) / (load[1] or usual) < here for load in loads.values())


def _usual_rate(loads: Mapping[str, Load]) -> float:
    """What an unknown rate counts as: the mean of the known ones, 1 if there are none."""
    known = [rate for _, rate in loads.values() if rate]
    return sum(known) / len(known) if known else 1.0
