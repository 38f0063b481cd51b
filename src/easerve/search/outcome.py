"""What a trial came to, and which of two outcomes is the better.

By goodput (or throughput, as EAServe, arXiv 2609.31551, does), ties by mean TTFT, then by mean TPOT. What differs by
less than the noise of a trial is a tie, for which values are rounded to steps of 2 % (derived here).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from easerve.search.space import Candidate

NOISE = 0.02  # of a trial, relative
LEVELS = 4096  # of a rounded value, from LEAST upwards; 2 % a level is a factor of 1e35
LEAST = 1e-9

Objective = Literal["goodput", "throughput"]
Rank = tuple[int, int, int]  # the higher the better


@dataclass(frozen=True)
class Outcome:
    """Requests a second within the objectives, and answered at all; mean seconds (infinite if nothing was answered)."""

    goodput: float
    throughput: float
    ttft: float
    tpot: float

    @classmethod
    def mean(cls, outcomes: Sequence[Outcome]) -> Outcome:
        return cls(
            fmean(one.goodput for one in outcomes),
            fmean(one.throughput for one in outcomes),
            fmean(one.ttft for one in outcomes),
            fmean(one.tpot for one in outcomes),
        )


Trial = Callable[[Candidate, int], Outcome]  # the int seeds the requests and when they come


def rank(outcome: Outcome, objective: Objective) -> Rank:
    return (
        _level(outcome.goodput if objective == "goodput" else outcome.throughput),
        -_level(outcome.ttft),
        -_level(outcome.tpot),
    )


def score(outcome: Outcome, objective: Objective) -> float:
    """One number in the order of ranks, for a sampler that compares numbers."""
    first, second, third = rank(outcome, objective)
    return float((first * LEVELS + second) * LEVELS + third)


def _level(value: float) -> int:
    if value <= LEAST:
        return 0
    if math.isinf(value):
        return LEVELS - 1
    return min(LEVELS - 1, round(math.log(value / LEAST) / math.log1p(NOISE)))
