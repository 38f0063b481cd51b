"""Interpolation between measured sizes: linear, never outside of its neighbours, never falling as a size grows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise


class Curve:
    """Through points (x, y). Below the first x as at the first; beyond the last as steep as before it.

    A measured y that is below an earlier one is raised to it: more work does not take less time.
    """

    def __init__(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        self._xs = _ascending(xs)
        self._ys = list(accumulate(ys, max))
        self._last = len(self._xs) - 2

    @classmethod
    def of(cls, function: Callable[[int], float], xs: Sequence[int]) -> Curve:
        return cls(xs, [function(x) for x in xs])

    def __call__(self, x: float, _: float = 0.0) -> float:
        """A second size is taken and not looked at, so that a curve stands where a surface may."""
        at, weight = _locate(self._xs, self._last, x)
        return _along(self._ys, at, weight)


class Surface:
    """Through a full grid of points: `values[i][j]` at (xs[i], ys[j]). At its edges as a `Curve` along each axis."""

    def __init__(self, xs: Sequence[float], ys: Sequence[float], values: Sequence[Sequence[float]]) -> None:
        self._xs = _ascending(xs)
        self._ys = _ascending(ys)
        rows = [list(accumulate(row, max)) for row in values]
        self._values = list(accumulate(rows, lambda above, row: list(map(max, above, row))))
        self._last_x, self._last_y = len(self._xs) - 2, len(self._ys) - 2

    @classmethod
    def of(cls, function: Callable[[int, int], float], xs: Sequence[int], ys: Sequence[int]) -> Surface:
        return cls(xs, ys, [[function(x, y) for y in ys] for x in xs])

    def __call__(self, x: float, y: float) -> float:
        at, weight = _locate(self._xs, self._last_x, x)
        beside, other = _locate(self._ys, self._last_y, y)
        low = _along(self._values[at], beside, other)
        return low + weight * (_along(self._values[at + 1], beside, other) - low) if weight else low


def geometric(first: int, last: int, ratio: float) -> list[int]:
    """Whole numbers from `first` to `last`, each about `ratio` times the one before."""
    found = [first]
    while found[-1] < last:
        found.append(min(last, max(found[-1] + 1, round(found[-1] * ratio))))
    return found


def _locate(nodes: list[float], last: int, x: float) -> tuple[int, float]:
    """The node at or below x, but at most `last`, and how far x is on the way to the next (above 1: beyond it)."""
    if x <= nodes[0] or last < 0:
        return 0, 0.0
    at = bisect_right(nodes, x, 0, last + 1) - 1
    return at, (x - nodes[at]) / (nodes[at + 1] - nodes[at])


def _along(row: list[float], at: int, weight: float) -> float:
    low = row[at]
    return low + weight * (row[at + 1] - low) if weight else low


def _ascending(values: Iterable[float]) -> list[float]:
    nodes = list(values)
    if not nodes or any(a >= b for a, b in pairwise(nodes)):
        raise ValueError(f"sizes must ascend, not {nodes}")
    return nodes
