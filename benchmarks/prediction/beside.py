"""One deployment under the same load twice: served and benchmarked, and simulated from a profile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import join
from typing import Any

from drift import Drift, Profiled, drift, drifted, probing
from rich.console import Console

from easerve.bench.document import document
from easerve.bench.launch import launched
from easerve.bench.plan import Closed, Plan, Rates
from easerve.bench.report import Report
from easerve.bench.run import run_bench
from easerve.bench.target import client
from easerve.bench.workloads import read_workload
from easerve.config import Deployment, plan_workers, write_deployment
from easerve.costs.profile_file import read_profile, write_profile
from easerve.errors import EAServeError, StartupError
from easerve.profile.probe import Reading
from easerve.simulate.machines import Machines
from easerve.simulate.run import Simulation

TOPOLOGIES = ("aggregated", "colocated", "e-p-d")
SHARES = (0.2, 0.4, 0.6)  # of what the simulation carries at most
AT_ONCE = 32  # requests in flight where that is looked for
PATIENCE = 300.0  # seconds until a server is up


@dataclass(frozen=True)
class Served:
    """A run, and what the probes read right before and after it."""

    report: Report
    before: Reading
    after: Reading


@dataclass(frozen=True)
class Trial:
    """One rate, and the same plan three times: served, simulated from the profile as it was taken (`uncorrected`), and
    from the profile with the run's drift."""

    rate: float
    served: Served
    drift: Drift
    uncorrected: Report
    predicted: Report

    def as_json(self, command: str) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "drift": asdict(self.drift),
            "before": self.served.before,
            "after": self.served.after,
            "measured": document(self.served.report, command),
            "uncorrected": document(self.uncorrected, command),
            "predicted": document(self.predicted, command),
        }


def deployment(model: Path, topology: str) -> Deployment:
    return Deployment(model=str(model), topology=topology, device="cpu", engine="torch")  # type: ignore[arg-type]


def cores_of(chosen: Deployment) -> int:
    """How many each of its workers has here. Raises StartupError if they differ: a profile is of one number."""
    numbers = {len(plan.device.indices) for plan in plan_workers(chosen)}
    if len(numbers) > 1:
        raise StartupError(f"workers of {chosen.topology} have {sorted(numbers)} cores here; take other --cores")
    return numbers.pop()


def plan(workload: str, seed: int, requests: int, warmup: int) -> Plan:
    """Without rates yet."""
    return Plan(
        workload_name=workload,
        workload=read_workload(workload),
        load=Rates(()),
        seed=seed,
        requests=requests,
        warmup=warmup,
        unloaded=0,
    )


def simulation_of(chosen: Deployment, profile: Path) -> Simulation:
    return Simulation(chosen, Machines("cpu", profile=profile).world(chosen.model))


def beside(
    chosen: Deployment,
    profiled: Profiled,
    load: Plan,
    results: Path,
    console: Console,
    shares: Sequence[float] = SHARES,
) -> list[Trial]:
    """Raises EAServeError if the server or a probe does not come up, or a request is not answered."""
    simulation = simulation_of(chosen, profiled.path)
    most = _most(simulation, load)
    rates = [round(share * most, 2) for share in shares]
    console.print(f"rates: {rates} of at most {most:.2f} req/s in virtual time", highlight=False)
    plans = [replace(load, load=Rates((rate,)), seed=load.seed + number) for number, rate in enumerate(rates)]
    with probing(chosen) as read:
        runs = asyncio.run(_served(chosen, plans, read, results, console))
    return [_trial(chosen, profiled, rate, run, results) for rate, run in zip(rates, runs, strict=True)]


def _trial(chosen: Deployment, profiled: Profiled, rate: float, run: Served, results: Path) -> Trial:
    by = drift(profiled.reading, run.before, run.after)
    path = results / f"{chosen.topology}-{rate:g}.profile.json"
    write_profile(drifted(read_profile(profiled.path), by), path)
    uncorrected, predicted = [simulation_of(chosen, one).bench(run.report.plan) for one in (profiled.path, path)]
    for report in (run.report, uncorrected, predicted):
        if errors := _errors(report):
            raise EAServeError(f"requests failed: {dict(errors)}")
    return Trial(rate, run, by, uncorrected, predicted)


def _most(simulation: Simulation, load: Plan) -> float:
    """Requests a second, with many in flight."""
    report = simulation.bench(replace(load, load=Closed(AT_ONCE), requests=8 * AT_ONCE))
    return report.runs[0].all.request_throughput


async def _served(
    chosen: Deployment, plans: Sequence[Plan], read: Callable[[], Reading], results: Path, console: Console
) -> list[Served]:
    """One server, which does nothing while the probes read."""
    config = results / f"{chosen.topology}.yaml"
    write_deployment(chosen, config)
    command = join([sys.executable, "-m", "easerve", "serve", "--config", str(config)]) + " --port {port}"
    console.print(f"{chosen.topology}: starting", highlight=False)
    runs = []
    async with (
        launched(command, (), results / f"{chosen.topology}.log", PATIENCE) as url,
        client(url, None) as http,
    ):
        for one in plans:
            before = await asyncio.to_thread(read)
            report = await run_bench(one, http, None, console, asyncio.Event())
            runs.append(Served(report, before, await asyncio.to_thread(read)))
    return runs


def _errors(report: Report) -> Mapping[str, int]:
    return {kind: number for run in report.runs for kind, number in run.all.errors.items()}
