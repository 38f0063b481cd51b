"""Mean and percentiles, as numpy and vLLM's bench take them: linear between the two nearest values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean


def percentile(values: Sequence[float], percent: float) -> float:
    """`values` need not be sorted, and must not be empty."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass(frozen=True)
class Distribution:
    """Seconds."""

    mean: float
    p50: float
    p90: float
    p99: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Distribution | None:
        """None for no values."""
        if not values:
            return None
        p50, p90, p99 = (percentile(values, percent) for percent in (50, 90, 99))
        return cls(fmean(values), p50, p90, p99, len(values))
