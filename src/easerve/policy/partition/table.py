"""The smallest safe share of a device for each encode batch: looked up, not computed, when a batch starts.

A share is safe when it slows encode down by no more than a slack, and encode keeps up with what arrives. That a
start-up profile gives the smallest safe share per batch is the paper's (EAServe, arXiv 2609.31551); both bounds and
what makes the table monotone are derived here.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from easerve.policy.partition.profile import EncodeProfile

Shares = tuple[float, ...]  # units for each profiled batch; NO_SHARE where none is safe
NO_SHARE = float("inf")


@dataclass(frozen=True)
class SafeRange:
    """What counts as safe."""

    slack: float = 0.1  # encode may take so much longer than on the whole device (eps)
    busiest: float = 0.9  # busy fraction of encode above which it does not keep up (rho_max)
    most: float = 0.9  # of the device; a larger share leaves prefill too little to be worth a partition

    def __post_init__(self) -> None:
        if self.slack < 0 or not 0 < self.busiest < 1 or not 0 < self.most <= 1:
            raise ValueError(f"slack must be at least 0, busiest below 1, most a part of the device: {self}")


class ShareTable:
    """Shares by batch and arrival rate; a lookup is two bisections.

    For a batch of b items on m of M units and a rate of r items a second,

        share(b) = min m with T(b, m) <= (1 + slack) T(b, M) and T(b, m) <= busiest * b / r,

    at least as much as any smaller batch has, and none where that is more than `most` of the device. A batch too small
    to keep up even on the whole device does not ask for it if a larger one does keep up: the queue grows to that.
    """

    def __init__(self, profile: EncodeProfile, safe: SafeRange) -> None:
        self._profile = profile.monotone()
        self._safe = safe
        self._rates = sorted({self._highest_rate(i, j) for i in range(len(profile.batches)) for j in self._columns})
        self._shares = [self._at(rate) for rate in (*self._rates, NO_SHARE)]

    def share(self, items: int, rate: float) -> int | None:
        """Units for a batch of `items` while `rate` items a second arrive; None: no share is safe, or the batch is
        larger than any that was profiled."""
        row = bisect_left(self._profile.batches, items)
        if row == len(self._profile.batches):
            return None
        share = self._shares[bisect_left(self._rates, rate)][row]
        return None if share == NO_SHARE else int(share)

    @property
    def _columns(self) -> range:
        return range(len(self._profile.units))

    def _highest_rate(self, row: int, column: int) -> float:
        """At which this share keeps up: between two neighbours of these, no share changes."""
        return self._safe.busiest * self._profile.batches[row] / self._profile.seconds[row][column]

    def _at(self, rate: float) -> Shares:
        """For all batches at one rate."""
        rows = range(len(self._profile.batches))
        keeping_up = [row for row in rows if self._highest_rate(row, -1) >= rate]
        if not keeping_up:
            return (NO_SHARE,) * len(rows)
        least = [self._least(row, rate if row in keeping_up or row > keeping_up[-1] else 0.0) for row in rows]
        limit = self._safe.most * self._profile.whole
        return tuple(share if share <= limit else NO_SHARE for share in accumulate(least, max))

    def _least(self, row: int, rate: float) -> float:
        seconds = self._profile.seconds[row]
        longest = (1 + self._safe.slack) * seconds[-1]
        safe = (j for j in self._columns if seconds[j] <= longest and self._highest_rate(row, j) >= rate)
        return next((self._profile.units[j] for j in safe), NO_SHARE)
