"""Plays a scenario: every side once, and from them its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import isclose
from typing import Any, Literal

from easerve.bench.objectives import EVERY, Objectives
from easerve.bench.plan import Climb, Plan, Rates
from easerve.bench.report import Report
from easerve.bench.workloads.read import KINDS
from easerve.scenarios.describe import Row, Scenario, Side
from easerve.scenarios.hosted import FITTED, Host
from easerve.scenarios.metrics import RATES, measure
from easerve.scenarios.searching import searched
from easerve.scenarios.world import PATIENT, simulation

BISECTIONS = 3  # of a knee: within 9 %
Verdict = Literal["as reported", "equal", "reversed"]

NEAR = 0.25  # what a held-out ratio may be off
NOISE = 0.01  # values nearer to each other than that are equal


@dataclass(frozen=True)
class Outcome:
    """A row beside what came of it. `held_out`: no constant was chosen by it."""

    row: Row
    simulated: float

    @property
    def held_out(self) -> bool:
        return not self.row.fitted

    @property
    def ratio(self) -> float:
        """Simulated over reported; of changes, of what is left after them."""
        if self.row.relation == "change":
            return (1 + self.simulated) / (1 + self.row.reported)
        return self.simulated / self.row.reported

    @property
    def near(self) -> bool:
        if self.row.bound is not None:
            return self.simulated < self.row.reported
        return abs(self.ratio - 1) <= NEAR

    def as_json(self) -> dict[str, Any]:
        own = {"name": self.row.name, "reported": self.row.reported, "simulated": round(self.simulated, 4)}
        return {**own, "held_out": self.held_out}


@dataclass(frozen=True)
class Order:
    """Two rows by name, the first of which the source has as the better, and whether it is so here."""

    better: str
    worse: str
    verdict: Verdict


@dataclass(frozen=True)
class Played:
    """`requests` replaces the number that the scenario has, for a quick look."""

    scenario: Scenario
    seed: int = 0
    requests: int | None = None
    host: Host = FITTED
    watch: Callable[[str], None] = lambda side: None

    @cached_property
    def outcomes(self) -> list[Outcome]:
        return [Outcome(row, self._value(row)) for row in self.scenario.rows]

    @cached_property
    def reports(self) -> dict[str, Report]:
        return {name: self._bench(name, side) for name, side in self.scenario.sides.items()}

    @cached_property
    def orders(self) -> list[Order]:
        """Of every two neighbours in what the source puts in order."""
        values = {outcome.row.name: outcome.simulated for outcome in self.outcomes}
        return [
            Order(better, worse, _verdict(values[better], values[worse], ordering.best))
            for ordering in self.scenario.orderings
            for better, worse in pairwise(ordering.rows)
        ]

    def as_json(self) -> dict[str, Any]:
        return {"scenario": self.scenario.name, "rows": [outcome.as_json() for outcome in self.outcomes]}

    @cached_property
    def _searched(self) -> dict[str, dict[str, float]]:
        found = {}
        for name, search in self.scenario.searches.items():
            self.watch(name)
            asked = search if self.requests is None else search.model_copy(update={"requests": self.requests})
            found[name] = searched(asked, self.seed)
        return found

    def _value(self, row: Row) -> float:
        if row.over is None:
            return self._metric(row.of, row.metric)
        ratio = self._metric(row.of, row.metric) / self._metric(row.over, row.metric)
        return ratio if row.relation == "ratio" else ratio - 1

    def _metric(self, of: str, metric: str) -> float:
        return self._searched[of][metric] if of in self.scenario.searches else self._measured(of, metric)

    def _measured(self, side: str, metric: str) -> float:
        times = self.scenario.sides[side].replicas if metric in RATES else 1
        return times * measure(self.reports[side], metric)

    def _bench(self, name: str, side: Side) -> Report:
        self.watch(name)
        return simulation(side, self.host).bench(self._plan(side, self._objectives(side)))

    def _objectives(self, side: Side) -> Objectives:
        """The moderate tier of the side that `slo` names: multiples of what it takes when it is idle."""
        if not isinstance(side.slo, str):
            return side.slo or Objectives()
        judge = self.scenario.sides[side.slo]
        plan = replace(self._plan(judge, Objectives()), load=Rates((1.0,)), requests=1, unloaded=10)
        found = simulation(judge, self.host).bench(plan).objectives
        assert found is not None
        return found[EVERY]

    def _plan(self, side: Side, objectives: Objectives) -> Plan:
        fields = dict(side.workload)
        kind = fields.pop("kind")
        return Plan(
            workload_name=kind,
            workload=KINDS[kind](**fields),
            load=Climb(BISECTIONS) if side.rate is None else Rates((side.rate / side.replicas,)),
            seed=self.seed,
            arrivals=side.arrivals,
            requests=self.requests or side.requests,
            warmup=0,
            unloaded=1 if side.rate is None else 0,
            objectives=objectives,
            timeout=PATIENT,
        )


def _verdict(better: float, worse: float, best: Literal["highest", "lowest"]) -> Verdict:
    if isclose(better, worse, rel_tol=NOISE):
        return "equal"
    return "as reported" if (better > worse) == (best == "highest") else "reversed"
