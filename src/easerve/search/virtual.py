"""A trial in virtual time: the candidate's deployment under the workload, through the real pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from easerve.bench.arrivals import Arrivals
from easerve.bench.metrics import Summary
from easerve.bench.objectives import Objectives
from easerve.bench.plan import Plan, Rates
from easerve.bench.workloads import Workload
from easerve.config import Deployment, WorkerPlan
from easerve.config.topology import EP, E
from easerve.costs.base import StageCosts
from easerve.search.demand import Demand
from easerve.search.deploying import Machine, deployment
from easerve.search.outcome import Outcome
from easerve.search.space import Candidate
from easerve.simulate.run import Simulation
from easerve.simulate.server import World


@dataclass(frozen=True)
class Load:
    """What a trial sends: `requests` of a workload at the demand's rate."""

    name: str
    workload: Workload
    demand: Demand
    requests: int
    arrivals: Arrivals

    def plan(self, seed: int) -> Plan:
        """Without warm-up: nothing needs it in virtual time, and a live trial's server has just warmed up."""
        return Plan(
            workload_name=self.name,
            workload=self.workload,
            load=Rates((self.demand.rate,)),
            seed=seed,
            arrivals=self.arrivals,
            requests=self.requests,
            warmup=0,
            unloaded=0,
            objectives=Objectives(self.demand.ttft, self.demand.tpot),
        )


@dataclass(frozen=True)
class VirtualTrial:
    """A `Trial`. `costs` are those of workers by the number of devices they span, `world` all else."""

    load: Load
    machine: Machine
    base: Deployment
    costs: Mapping[int, StageCosts]
    world: World

    def __call__(self, candidate: Candidate, seed: int) -> Outcome:
        found = self.simulation(candidate).bench(self.load.plan(seed))
        return outcome(found.runs[0].all, self.load.demand.rate)

    def simulation(self, candidate: Candidate) -> Simulation:
        allocation = candidate.allocation

        def costs(plan: WorkerPlan) -> StageCosts:
            return self.costs[allocation.encode_tp if plan.stages in (E, EP) else allocation.tp]

        made = deployment(candidate, self.machine, self.load.demand, self.base)
        return Simulation(made, replace(self.world, costs=costs))


def outcome(summary: Summary, rate: float) -> Outcome:
    """Goodput is the share of requests within the objectives, of the rate they came at. The benchmark divides by the
    length of the run, to the end of its last answer: in a short trial that would prefer short answers to many."""
    within = summary.completed / summary.requests if summary.good is None else summary.good.share
    return Outcome(
        goodput=rate * within,
        throughput=summary.request_throughput,
        ttft=float("inf") if summary.ttft is None else summary.ttft.mean,
        tpot=float("inf") if summary.tpot is None else summary.tpot.mean,
    )
