"""Which allocations are worth a trial: the first stage of HAS.

An allocation is dropped when its bottleneck is at least 20 % more loaded than that of the best-balanced one (EAServe,
arXiv 2609.31551), or when not even an idle deployment would keep the objectives (derived here).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from easerve.search.allocation import Allocation
from easerve.search.loads import Balanced, LoadModel
from easerve.search.space import Space

TOLERATED = 1.2  # times the least load


@dataclass(frozen=True)
class Verdict:
    """What stage one found about an allocation; `dropped` says why, empty if it was kept."""

    allocation: Allocation
    balanced: Balanced
    dropped: str = ""


def prune(model: LoadModel, space: Space) -> list[Verdict]:
    """Least loaded first."""
    found = sorted((model.balanced(one, space) for one in space.allocations), key=lambda one: one.load)
    reasons = [_too_slow(model, one.candidate.allocation) for one in found]
    able = [one for one, reason in zip(found, reasons, strict=True) if not reason]
    least = able[0] if able else None
    return [
        Verdict(one.candidate.allocation, one, reason or _too_loaded(one, least))
        for one, reason in zip(found, reasons, strict=True)
    ]


def kept(verdicts: Iterable[Verdict]) -> Sequence[Balanced]:
    """Where to begin in each allocation that is worth trying, the most promising first."""
    return [verdict.balanced for verdict in verdicts if not verdict.dropped]


def _too_slow(model: LoadModel, allocation: Allocation) -> str:
    """A lone request on idle workers, its items dealt out over the encoders."""
    demand, times = model.demand, model.times(allocation.tp)
    encoders = allocation.encoders or 1
    encode = model.times(allocation.encode_tp if allocation.encoders else allocation.tp)
    ttft = encode.batch(math.ceil(demand.shape.items / encoders)) + times.first_token()
    if demand.ttft is not None and ttft > demand.ttft:
        return f"TTFT {ttft:.3g} s even when idle"
    if demand.tpot is not None and times.step(1) > demand.tpot:
        return f"TPOT {times.step(1) * 1000:.3g} ms even when idle"
    return ""


def _too_loaded(one: Balanced, least: Balanced | None) -> str:
    if least is None or one.load < TOLERATED * least.load:
        return ""
    return f"{one.bottleneck} {one.load / least.load - 1:.0%} more loaded than the best's {least.bottleneck}"
