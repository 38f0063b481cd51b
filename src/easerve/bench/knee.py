"""The knee of a server: the highest rate at which enough requests are within the objective.

Pure search: what a rate gives is asked of a function. Rates are compared as ratios, so bisection takes geometric means.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence

NEEDED = 0.9  # share of requests within the objective
STEPS = 10  # most doublings or halvings of a climb

Measure = Callable[[float], Awaitable[float | None]]  # rate -> share within the objective; None: stopped by the user


class Search:
    """Remembers what every rate gave."""

    def __init__(self, measure: Measure, needed: float = NEEDED) -> None:
        self.shares: dict[float, float] = {}
        self.stopped = False
        self._measure = measure
        self._needed = needed

    @property
    def knee(self) -> float | None:
        """The highest rate so far that was good; None if none was."""
        return max((rate for rate, share in self.shares.items() if share >= self._needed), default=None)

    @property
    def first_bad(self) -> float | None:
        """The lowest rate above the knee that was bad; None if none was."""
        return min((rate for rate in self.shares if rate > (self.knee or 0.0) and not self._good(rate)), default=None)

    async def through(self, rates: Sequence[float]) -> None:
        """All of these, lowest first."""
        for rate in sorted(set(rates)):
            await self._ask(rate)

    async def climb(self, start: float) -> None:
        """From `start` by doubling until a rate is bad; if `start` is, by halving until one is good."""
        await self._ask(start)
        for _ in range(STEPS):
            if self.stopped or (self.knee is not None and self.first_bad is not None):
                return
            await self._ask(2 * max(self.shares) if self.knee is not None else min(self.shares) / 2)

    async def bisect(self, times: int) -> None:
        """So often between the last good rate and the first bad one; does nothing while one of them is unknown."""
        for _ in range(times):
            if self.knee is None or self.first_bad is None:
                return
            await self._ask(math.sqrt(self.knee * self.first_bad))

    def _good(self, rate: float) -> bool:
        return self.shares[rate] >= self._needed

    async def _ask(self, rate: float) -> None:
        if self.stopped:
            return
        share = await self._measure(rate)
        if share is None:
            self.stopped = True
        else:
            self.shares[rate] = share
