"""One deployment under the same load twice: served and benchmarked, and simulated from a profile."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import join
from typing import Any

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
from easerve.simulate.machines import Machines
from easerve.simulate.run import Simulation

TOPOLOGIES = ("aggregated", "colocated", "e-p-d")
SHARES = (0.2, 0.4, 0.6)  # of what the simulation carries at most
AT_ONCE = 32  # requests in flight where that is looked for
PATIENCE = 300.0  # seconds until a server is up


@dataclass(frozen=True)
class Beside:
    """Reports of the same plan: a run of each for every rate."""

    simulation: Simulation
    measured: Report
    simulated: Report

    def as_json(self, command: str) -> dict[str, Any]:
        return {
            "simulation": self.simulation.as_json(),
            "measured": document(self.measured, command),
            "simulated": document(self.simulated, command),
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
    chosen: Deployment, profile: Path, load: Plan, results: Path, console: Console, shares: Sequence[float] = SHARES
) -> Beside:
    """Raises EAServeError if the server does not come up, or a request is not answered."""
    simulation = simulation_of(chosen, profile)
    most = _most(simulation, load)
    rates = [round(share * most, 2) for share in shares]
    console.print(f"rates: {rates} of at most {most:.2f} req/s in virtual time", highlight=False)
    loaded = replace(load, load=Rates(rates))
    simulated = simulation.bench(loaded)
    measured = asyncio.run(_served(chosen, loaded, results, console))
    for report in (measured, simulated):
        if errors := _errors(report):
            raise EAServeError(f"requests failed: {dict(errors)}")
    return Beside(simulation, measured, simulated)


def _most(simulation: Simulation, load: Plan) -> float:
    """Requests a second, with many in flight."""
    report = simulation.bench(replace(load, load=Closed(AT_ONCE), requests=8 * AT_ONCE))
    return report.runs[0].all.request_throughput


async def _served(chosen: Deployment, load: Plan, results: Path, console: Console) -> Report:
    config = results / f"{chosen.topology}.yaml"
    write_deployment(chosen, config)
    command = join([sys.executable, "-m", "easerve", "serve", "--config", str(config)]) + " --port {port}"
    console.print(f"{chosen.topology}: starting", highlight=False)
    async with (
        launched(command, (), results / f"{chosen.topology}.log", PATIENCE) as url,
        client(url, None) as http,
    ):
        return await run_bench(load, http, None, console, asyncio.Event())


def _errors(report: Report) -> Mapping[str, int]:
    return {kind: number for run in report.runs for kind, number in run.all.errors.items()}
