"""Which allocations are worth a trial: the first stage of HAS.

An allocation is dropped when its bottleneck is at least 20 % more loaded than that of the best-balanced one (EAServe,
arXiv 2609.31551), or when not even an idle deployment would keep the objectives (derived here). Where no allocation
sustains the rate, loads do not say which is best; those that keep most of the objectives all the same stay too (derived
here).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from easerve.search.allocation import Allocation
from easerve.search.loads import Balanced, LoadModel
from easerve.search.overload import Hope, in_time, most_in_time
from easerve.search.space import Candidate, Space

TOLERATED = 1.2  # times the least load
# Times less than the most in time, and still worth a trial: estimates for overload are that rough (docs/search.md)
ROUGHLY = 1.5


@dataclass(frozen=True)
class Verdict:
    """What stage one found about an allocation; `start` is where to begin in it, the balanced point unless the rate is
    more than any sustains. `dropped` says why it was, empty if it was kept."""

    allocation: Allocation
    balanced: Balanced
    start: Candidate
    dropped: str = ""


def prune(model: LoadModel, space: Space, requests: int) -> list[Verdict]:
    """Least loaded first, for trials of so many requests."""
    found = sorted((model.balanced(one, space) for one in space.allocations), key=lambda one: one.load)
    slow = {one: _too_slow(model, one.candidate.allocation) for one in found}
    able = [one for one in found if not slow[one]]
    hopes = _hopes(model, able, space, requests)
    most = max((hope.part for hope in hopes.values()), default=0.0)
    verdicts = []
    for one in found:
        hope, dropped = hopes.get(one), slow[one]
        if not dropped and (hope is None or ROUGHLY * hope.part < most):
            dropped = _too_loaded(one, able[0])
        verdicts.append(Verdict(one.candidate.allocation, one, hope.candidate if hope else one.candidate, dropped))
    return verdicts


def _hopes(model: LoadModel, able: Sequence[Balanced], space: Space, requests: int) -> dict[Balanced, Hope]:
    """What each could keep of the objectives; nothing where the best-balanced keeps them all."""
    if not able or in_time(model, able[0].candidate, requests) == 1:
        return {}
    return {one: most_in_time(model, one.candidate, space, requests) for one in able}


def kept(verdicts: Iterable[Verdict]) -> Sequence[Candidate]:
    """Where to begin in each allocation that is worth trying, the least loaded first."""
    return [verdict.start for verdict in verdicts if not verdict.dropped]


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


def _too_loaded(one: Balanced, least: Balanced) -> str:
    if one.load < TOLERATED * least.load:
        return ""
    return f"{one.bottleneck} {one.load / least.load - 1:.0%} more loaded than the best's {least.bottleneck}"
