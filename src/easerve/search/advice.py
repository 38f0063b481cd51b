"""Which topology, and why: the best-balanced deployment of each kind side by side, under one load. Derived here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from easerve.search.allocation import Kind
from easerve.search.explore import FRESH_SEEDS
from easerve.search.loads import Balanced, LoadModel
from easerve.search.outcome import Outcome, Trial, rank
from easerve.search.space import Space

TOGETHER = ("aggregated", "colocated")  # encode has no devices of its own
WORTH = 1.05  # a gain in goodput that is worth setting devices apart


@dataclass(frozen=True)
class Side:
    """A topology by its name in deployments, its best-balanced candidate, and what that came to."""

    topology: str
    balanced: Balanced
    outcome: Outcome

    @property
    def apart(self) -> bool:
        return self.topology not in TOGETHER


def compare(model: LoadModel, space: Space, trial: Trial) -> list[Side]:
    """Best first: by goodput, ties by TTFT, then TPOT. Only topologies that the devices allow are there."""
    found = []
    for topology, balanced in _best_balanced(model, space):
        outcome = Outcome.mean([trial(balanced.candidate, seed) for seed in range(FRESH_SEEDS)])
        found.append(Side(topology, balanced, outcome))
    return sorted(found, key=lambda side: rank(side.outcome, "goodput"), reverse=True)


def _best_balanced(model: LoadModel, space: Space) -> Iterator[tuple[str, Balanced]]:
    topologies: dict[str, tuple[Kind, Sequence[float]]] = {
        "aggregated": ("aggregated", (1.0,)),
        "colocated": ("colocated", (1.0,)),
        "e-pd": ("e-pd", (1.0,)),
        "e-p-d": ("e-p-d", (1.0,)),
        "easerve": ("e-p-d", [ratio for ratio in space.ratios if ratio < 1]),
    }
    for topology, (kind, ratios) in topologies.items():
        narrow = replace(space, ratios=ratios)
        of_kind = [one for one in space.allocations if one.kind == kind]
        if topology == "easerve":
            of_kind = [one for one in of_kind if one in space.local]
        if of_kind:
            yield topology, min((model.balanced(one, narrow) for one in of_kind), key=lambda one: one.load)


def reasons(model: LoadModel, sides: Sequence[Side]) -> Iterator[str]:
    """Sentences about the best of `sides`, which are in order and at least one."""
    best, demand = sides[0], model.demand
    yield (
        f"{best.topology} ({best.balanced.candidate}) is predicted to serve {best.outcome.goodput:.2f} of "
        f"{demand.rate:g} req/s within the objectives; its bottleneck is {best.balanced.bottleneck}, at "
        f"{best.balanced.load:.0%} of what it can do"
    )
    if min(side.balanced.load for side in sides) > 1:
        yield "by its loads no deployment here sustains this rate for long: plan for a lower one, or for more devices"
    yield _work(model, best)
    yield from _verdict(sides)


def _work(model: LoadModel, side: Side) -> str:
    """Where a request's time on a device goes."""
    one = side.balanced.candidate
    times = model.times(one.allocation.tp)
    tpot = float("inf") if model.demand.tpot is None else model.demand.tpot
    parts = {"encode": times.encode(one.batch), "prefill": times.prefill(), "decode": times.decode(tpot)}
    total = sum(parts.values())
    shares = ", ".join(f"{name} {seconds / total:.0%}" for name, seconds in parts.items())
    return f"of the time that a request takes of a device: {shares}"


def _verdict(sides: Sequence[Side]) -> Iterator[str]:
    """Whether encode should have devices of its own."""
    apart = next((side for side in sides if side.apart), None)
    together = next((side for side in sides if not side.apart), None)
    if apart is None:
        yield "encode cannot have devices of its own: there is only one"
    elif together is not None:
        yield _gain(apart, together)


def _gain(apart: Side, together: Side) -> str:
    least = max(together.outcome.goodput, 1e-9)
    gain = apart.outcome.goodput / least
    compared = (
        f"{apart.topology} {apart.outcome.goodput:.2f} against {together.topology} {together.outcome.goodput:.2f} req/s"
    )
    if gain >= WORTH:
        return f"giving encode devices of its own pays: {compared} within the objectives"
    if gain > 1 / WORTH:
        return f"giving encode devices of its own makes no difference to goodput ({compared}): choose by the latencies"
    loads = apart.balanced.loads
    idle = 1 - loads["encode"] / max(loads.values())
    return (
        f"giving encode devices of its own does not pay: {compared}; even in the best-balanced split they are "
        f"{max(0.0, idle):.0%} less busy than its {apart.balanced.bottleneck}"
    )
