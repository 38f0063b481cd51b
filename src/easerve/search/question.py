"""What is asked of a search, and everything that follows from it before the first trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.workloads import Workload
from easerve.config import Deployment, engine_options, plan_workers
from easerve.config.topology import E
from easerve.costs.base import StageCosts
from easerve.costs.make import make_costs
from easerve.engine.torch.options import EngineOptions
from easerve.errors import BadRequest
from easerve.search.demand import Demand
from easerve.search.deploying import Machine, deployment
from easerve.search.knee import sustained
from easerve.search.loads import LoadModel
from easerve.search.sampling import sample
from easerve.search.space import Space
from easerve.search.spanning import spanning
from easerve.search.tuning import whole_space
from easerve.search.virtual import Load, VirtualTrial
from easerve.simulate.machines import Machines
from easerve.simulate.server import World

WIDTHS = (1, 2, 4, 8)  # of workers, in devices
ANSWERS = 5  # that a trial lasts
FEWEST, MOST = 300, 1000  # requests of a trial where nobody asked: for the noise, and for the time it takes


@dataclass(frozen=True)
class Question:
    """`rate`: requests a second; None: what the devices just carry. `requests` of a trial; None: as many as
    `Prepared.requests` finds enough. `spans`: devices that a prefill or decode worker may span; None: one, or as many
    as the model needs."""

    model: str
    machine: Machine
    workload_name: str
    workload: Workload
    objectives: Objectives
    rate: float | None
    arrivals: Arrivals
    requests: int | None
    base: Deployment
    precision: str = "bf16"
    profile: Path | None = None
    link: str = "auto"
    spans: Sequence[int] | None = None

    def prepare(self) -> Prepared:
        """Raises StartupError or BadRequest for what is not known, not possible, or not asked clearly."""
        if self.objectives.e2e is not None:
            raise BadRequest("plans are made for TTFT and TPOT; give no objective for the whole answer")
        if self.rate is not None and not 0 < self.rate < math.inf:
            raise BadRequest(f"the rate must be above 0 requests a second and finite, not {self.rate:g}")
        world = Machines(self.machine.hardware, precision=self.precision, link=self.link, profile=self.profile).world(
            self.model
        )
        found = sample(self.workload, world)
        demand = Demand(found.shape, self.rate or 1.0, self.objectives.ttft, self.objectives.tpot)
        costs, spans = self._costs(demand)
        base = self.base.model_copy(
            update={"model": self.model, "limit_images": max(found.most_items, self.base.limit_images)}
        )
        space = whole_space(LoadModel(costs, demand), self.machine.devices, spans)
        model = LoadModel(costs, demand, self._bounds(deployment(next(iter(space)), self.machine, demand, base)))
        if self.rate is None:
            model = model.under(replace(demand, rate=sustained(model, space)))
        return Prepared(
            question=self,
            demand=model.demand,
            model=model,
            space=space,
            base=base,
            costs=costs,
            world=world,
        )

    def _costs(self, demand: Demand) -> tuple[Mapping[int, StageCosts], Sequence[int]]:
        """Costs by width of a worker, and the widths to plan with."""

        def make(tp: int) -> StageCosts:
            return make_costs(self.model, self.machine.hardware, tp=tp, precision=self.precision, profile=self.profile)

        if self.spans is not None:
            return spanning(make, self.spans), self.spans
        alone = spanning(make, ())
        if LoadModel(alone, demand).fits(1) or self.profile is not None:
            return alone, (1,)
        wider = [width for width in WIDTHS if width <= self.machine.devices]
        return spanning(make, wider), wider

    def _bounds(self, made: Deployment) -> EngineOptions:
        """Of the steps of its engines, as trials and servers will have them."""
        plan = next(one for one in plan_workers(made) if one.stages != E)
        return engine_options(made, plan, lambda *_: self.machine.kind == "cpu")

    def as_json(self) -> dict[str, Any]:
        """As it was asked."""
        return {
            "model": self.model,
            "hardware": str(self.machine),
            "workload": {"name": self.workload_name, **self.workload.model_dump(mode="json")},
            "slo": {"ttft": self.objectives.ttft, "tpot": self.objectives.tpot},
            "rate": self.rate,
            "arrivals": {"name": self.arrivals.name, "cv": self.arrivals.cv, "burst": self.arrivals.burst},
            "requests": self.requests,
            "precision": self.precision,
            "profile": None if self.profile is None else str(self.profile),
            "link": self.link,
            "base": self.base.model_dump(mode="json", exclude_defaults=True),
        }


@dataclass(frozen=True)
class Prepared:
    """A question with its cost models, its demand and its space; `load` and `trial` come from them."""

    question: Question
    demand: Demand
    model: LoadModel
    space: Space
    base: Deployment
    costs: Mapping[int, StageCosts]
    world: World

    @property
    def load(self) -> Load:
        asked = self.question
        return Load(asked.workload_name, asked.workload, self.demand, self.requests, asked.arrivals)

    @property
    def requests(self) -> int:
        """Of a trial: what was asked for, or enough for it to last several answers, so that overload shows."""
        if self.question.requests is not None:
            return self.question.requests
        answers = ANSWERS * self.demand.rate * self.model.times(max(self.costs)).answer(self.demand.tpot)
        return round(min(max(answers, FEWEST), MOST))

    def trial(self) -> VirtualTrial:
        return VirtualTrial(self.load, self.question.machine, self.base, self.costs, self.world)

    def as_json(self) -> dict[str, Any]:
        """The question with what was left open filled in: enough to tell it from another."""
        return {**self.question.as_json(), "rate": self.demand.rate, "requests": self.requests}

    def cost_source(self) -> str:
        """Where the seconds come from, in words."""
        return "; ".join(dict.fromkeys(self.world.sources.values()))
