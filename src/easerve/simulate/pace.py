"""How much slower than its costs say a machine is, by moment: machines that share memory or threads of a core with
others change their speed within seconds.

A run that is simulated with the pace that a machine had shows what the simulation gets wrong, and not what the machine
did meanwhile. Derived here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

Pace = Callable[[str, float], float]  # times as long, by a work's kind and the moment in which it begins


def even(kind: str, moment: float) -> float:
    """Of a machine that is as its costs say."""
    return 1.0


class Course:
    """A pace from (moment, times as long) of some kinds of work, in order of moments, and at least one of each. Between
    two of them it is that of the earlier, before the first that of the first; work of other kinds has the mean."""

    def __init__(self, points: Mapping[str, Sequence[tuple[float, float]]]) -> None:
        self._moments = {kind: [moment for moment, _ in found] for kind, found in points.items()}
        self._factors = {kind: [factor for _, factor in found] for kind, found in points.items()}

    def __call__(self, kind: str, moment: float) -> float:
        if kind not in self._factors:
            return fmean(self(one, moment) for one in self._factors)
        return self._factors[kind][max(0, bisect_right(self._moments[kind], moment) - 1)]

    def mean(self, kind: str) -> float:
        return fmean(self._factors[kind])
