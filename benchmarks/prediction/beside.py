"""One deployment under the same load twice: served and benchmarked, and simulated from a profile."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from shlex import join
from typing import Any

from pace import Beat, Profiled, course, probing, since, watching, words
from rich.console import Console

from easerve.bench.document import document
from easerve.bench.launch import launched
from easerve.bench.plan import Closed, Plan, Rates
from easerve.bench.report import Report
from easerve.bench.run import run_bench
from easerve.bench.target import client
from easerve.bench.workloads import read_workload
from easerve.config import Deployment, plan_workers, write_deployment
from easerve.errors import EAServeError, StartupError
from easerve.priority import going_first
from easerve.profile.probe import Probe
from easerve.simulate.machines import Machines
from easerve.simulate.pace import Pace
from easerve.simulate.run import Simulation

TOPOLOGIES = ("aggregated", "colocated", "e-p-d")
SHARES = (0.2, 0.4, 0.6)  # of what the simulation carries at most
AT_ONCE = 32  # requests in flight where that is looked for
PATIENCE = 300.0  # seconds until a server is up


@dataclass(frozen=True)
class Served:
    """A run, and what probes read throughout, at seconds from its begin; those of its warm-up are negative."""

    report: Report
    beats: Sequence[Beat]


@dataclass(frozen=True)
class Trial:
    """One rate, and the same plan three times: served, simulated from the profile alone (`uncorrected`), and at the
    pace that the machine had in the run, which is told in words too."""

    rate: float
    served: Served
    pace: str
    uncorrected: Report
    predicted: Report

    def as_json(self, command: str) -> dict[str, Any]:
        return {
            "rate": self.rate,
            "pace": self.pace,
            "beats": [asdict(beat) for beat in self.served.beats],
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


def simulation_of(chosen: Deployment, profile: Path, pace: Pace | None = None) -> Simulation:
    """What cores slow each other down by is in a pace already: probes are read beside what the other cores do."""
    world = Machines("cpu", profile=profile).world(chosen.model)
    return Simulation(chosen, world if pace is None else replace(world, pace=pace, slowdowns={}))


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
    rates = [float(f"{share * most:.3g}") for share in shares]
    console.print(f"rates: {rates} of at most {most:.2f} req/s in virtual time", highlight=False)
    plans = [replace(load, load=Rates((rate,)), seed=load.seed + number) for number, rate in enumerate(rates)]
    with probing(chosen) as read:
        runs = asyncio.run(_served(chosen, plans, read, results, console))
    return [_trial(chosen, profiled, rate, run) for rate, run in zip(rates, runs, strict=True)]


def _trial(chosen: Deployment, profiled: Profiled, rate: float, run: Served) -> Trial:
    """Without a warm-up: virtual workers need none, and so a run begins when its clock does."""
    pace, load = course(run.beats, profiled.reference), replace(run.report.plan, warmup=0)
    uncorrected, predicted = (simulation_of(chosen, profiled.path, one).bench(load) for one in (None, pace))
    for report in (run.report, uncorrected, predicted):
        if errors := _errors(report):
            raise EAServeError(f"requests failed: {dict(errors)}")
    return Trial(rate, run, words(run.beats, profiled.reference), uncorrected, predicted)


def _most(simulation: Simulation, load: Plan) -> float:
    """Requests a second, with many in flight."""
    report = simulation.bench(replace(load, load=Closed(AT_ONCE), requests=8 * AT_ONCE))
    return report.runs[0].all.request_throughput


async def _served(
    chosen: Deployment, plans: Sequence[Plan], read: Probe, results: Path, console: Console
) -> list[Served]:
    """By one server."""
    config = results / f"{chosen.topology}.yaml"
    write_deployment(chosen, config)
    command = join([sys.executable, "-m", "easerve", "serve", "--config", str(config)]) + " --port {port}"
    console.print(f"{chosen.topology}: starting", highlight=False)
    runs = []
    with going_first():
        async with (
            launched(command, (), results / f"{chosen.topology}.log", PATIENCE) as url,
            client(url, None) as http,
        ):
            for one in plans:
                with watching(read) as beats:
                    report = await run_bench(one, http, None, console, asyncio.Event())
                    begin = time.monotonic() - report.runs[0].observed.seconds
                runs.append(Served(report, since(begin, beats)))
    return runs


def _errors(report: Report) -> Mapping[str, int]:
    return {kind: number for run in report.runs for kind, number in run.all.errors.items()}
