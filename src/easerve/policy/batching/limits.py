"""Control limits kept ready: one per cell of a coarse logarithmic grid, so that looking one up takes a microsecond."""

from __future__ import annotations

from bisect import bisect
from itertools import pairwise

from easerve.policy.batching.smdp import control_limit

STEP = 2**0.5  # from cell to cell
HIGHEST_LOAD = 0.9  # above it the queue is seldom shorter than the bound, and the limit hardly matters
LOADS = [HIGHEST_LOAD * STEP**-cell for cell in reversed(range(20))]  # 0.0012 to 0.9
SHAPES = [STEP**cell for cell in range(-12, 13)]  # alpha / beta, 1/64 to 64
MOST_ITEMS = 16  # the largest bound that is modelled: a cell's time grows with its cube, its limit hardly


class ControlLimits:
    """M* by load and by the shape of T(b) = alpha + beta * b; nothing else matters once time is scaled by T(1).

    A cell is solved when it is first met (milliseconds). `price` as in `smdp.control_limit`.
    """

    def __init__(self, price: float, max_items: int) -> None:
        self._price = price
        self._max_items = min(max_items, MOST_ITEMS)
        self._limits: dict[tuple[int, int], int] = {}

    def limit(self, load: float, alpha: float, beta: float) -> int:
        """M* where `load` = rate * T(B) / B, per worker, and may be anything from 0 up, infinity included."""
        shape = alpha / beta if beta > 0 else SHAPES[-1]
        cell = bisect(_LOAD_BORDERS, load), bisect(_SHAPE_BORDERS, shape)
        limit = self._limits.get(cell)
        if limit is None:
            limit = self._limits[cell] = self._solve(LOADS[cell[0]], SHAPES[cell[1]])
        return limit

    def _solve(self, load: float, shape: float) -> int:
        alpha, beta = shape / (1 + shape), 1 / (1 + shape)
        rate = load * self._max_items / (alpha + beta * self._max_items)
        return control_limit(rate, alpha, beta, self._price, self._max_items)


def _borders(centres: list[float]) -> list[float]:
    return [(lower * upper) ** 0.5 for lower, upper in pairwise(centres)]


_LOAD_BORDERS = _borders(LOADS)
_SHAPE_BORDERS = _borders(SHAPES)
