"""How fast media items reach encode, per worker, as the batching rules need to know it.

The estimate is of the *mean inter-arrival*, because a threshold in gaps is linear in it: estimating the rate by an
average of reciprocals reads 5 % too high at the default weight. The paper configures the rate (EAServe, arXiv
2609.31551); estimating it is derived here.
"""

from __future__ import annotations

import math


class ArrivalRate:
    """Exponentially weighted mean of the gaps between arrivals at a pool that `workers` workers share.

    `workers` may be set at any time: what is learnt is the pool's gap, so that a worker's share of the arrivals follows
    at once when one dies or comes back. Without a `configured_rate` (arrivals per second at the pool) nothing is known
    until the second arrival. Times are in seconds and never go back.
    """

    def __init__(self, workers: int = 1, configured_rate: float | None = None, eta: float = 0.1) -> None:
        if configured_rate is not None and configured_rate <= 0:
            raise ValueError(f"the configured rate must be above 0 arrivals a second, not {configured_rate}")
        if not 0 < eta <= 1:
            raise ValueError(f"eta, the weight of the newest gap, must be in (0, 1], not {eta}")
        self.workers = workers
        self._eta = eta
        self._mean_gap = None if configured_rate is None else 1 / configured_rate
        self._last: float | None = None

    def observe(self, now: float) -> None:
        """An item reached encode. Do not count text-only requests, cache hits or repeated attempts."""
        if self._last is not None:
            gap = now - self._last
            self._mean_gap = gap if self._mean_gap is None else self._mean_gap + self._eta * (gap - self._mean_gap)
        self._last = now

    @property
    def mean_interarrival(self) -> float | None:
        """Mean seconds between two arrivals that fall to one worker; None while nothing is known.

        Made of closed gaps only: the one still open says nothing about the rate until it ends.
        """
        return None if self._mean_gap is None else self.workers * self._mean_gap

    @property
    def rate(self) -> float | None:
        """Arrivals per second and worker, 1 / `mean_interarrival`; infinite after nothing but simultaneous arrivals."""
        mean = self.mean_interarrival
        if mean is None:
            return None
        return 1 / mean if mean > 0 else math.inf
