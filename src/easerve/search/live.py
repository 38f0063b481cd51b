"""A trial on the machine at hand: the candidate's deployment is served, and the benchmark puts the load on it."""

from __future__ import annotations

import asyncio
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from easerve.bench.launch import launched
from easerve.bench.run import run_bench
from easerve.bench.target import client
from easerve.config import Deployment, write_deployment
from easerve.search.deploying import Machine, deployment
from easerve.search.outcome import Outcome
from easerve.search.space import Candidate
from easerve.search.virtual import Load, outcome

WARMUP = 4  # requests


@dataclass(frozen=True)
class LiveTrial:
    """A `Trial`. `folder` takes the deployment and the server's output of the latest candidate.

    Raises StartupError if a candidate's server does not come up within `patience` seconds.
    """

    load: Load
    machine: Machine
    base: Deployment
    folder: Path
    patience: float = 600.0

    def __call__(self, candidate: Candidate, seed: int) -> Outcome:
        file = self.folder / "candidate.yaml"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_deployment(deployment(candidate, self.machine, self.load.demand, self.base), file, comment=str(candidate))
        return asyncio.run(self._measured(file, seed))

    async def _measured(self, file: Path, seed: int) -> Outcome:
        command = f"{shlex.quote(sys.executable)} -m easerve serve --port {{port}} --config {shlex.quote(str(file))}"
        plan = replace(self.load.plan(seed), warmup=WARMUP)
        async with (
            launched(command, (), self.folder / "candidate.log", self.patience) as url,
            client(url, None) as http,
        ):
            report = await run_bench(plan, http, None, Console(quiet=True), asyncio.Event())
        return outcome(report.runs[0].all, self.load.demand.rate)
