"""A benchmark in virtual time, from deployment and plan to report."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from easerve import __version__
from easerve.bench.plan import Plan
from easerve.bench.report import Report
from easerve.bench.run import run_session
from easerve.bench.session import Session
from easerve.bench.target import Target
from easerve.config import Deployment, WorkerPlan, plan_workers, problems
from easerve.config.topology import E
from easerve.errors import StartupError
from easerve.simulate.clock import run_virtually
from easerve.simulate.server import VirtualServer, World
from easerve.simulate.wire import VirtualWire


@dataclass(frozen=True)
class Simulation:
    """`cuda` is the number of devices that a topology is spread over (None: no two workers of a tier share one). It has
    no effect where a deployment lists its workers, or runs on the cores of a CPU."""

    deployment: Deployment
    world: World
    cuda: int | None = None

    def server(self) -> VirtualServer:
        """Its workers are not up yet. Raises StartupError for a deployment that could not serve, or has no room."""
        deployment = self.deployment.model_copy(update={"engine": "torch", "engine_args": ()})  # whatever is installed
        if faults := problems(deployment):
            raise StartupError("; ".join(faults))
        plans = self.plans()
        if cramped := [plan.name for plan in plans if plan.stages != E and not self.world.costs(plan).kv_tokens]:
            raise StartupError(
                f"{self.deployment.model} has no room in {', '.join(cramped)} ({self.world.name}): give a worker more "
                "devices, larger ones, or a lower precision"
            )
        return VirtualServer(self.deployment, plans, self.world)

    def plans(self) -> list[WorkerPlan]:
        if self.deployment.device == "cpu":
            return plan_workers(self.deployment)
        return plan_workers(self.deployment, self.cuda or _enough(self.deployment))

    def as_json(self) -> dict[str, Any]:
        """What was simulated, and where its costs come from."""
        return {
            "deployment": self.deployment.model_dump(mode="json", exclude={"api_keys"}),
            "workers": [
                {"name": plan.name, "stages": plan.stages, "device": str(plan.device)} for plan in self.plans()
            ],
            "world": self.world.name,
            "sources": dict(self.world.sources),
        }

    def bench(self, plan: Plan, console: Console | None = None) -> Report:
        """The report that a benchmark of such a server would give. Same plan, same report, to the last bit.

        Raises EAServeError if no request of the warm-up is answered, and Deadlock if all wait for what cannot come.
        """
        return run_virtually(self._bench(plan, console or Console(quiet=True)))

    async def _bench(self, plan: Plan, console: Console) -> Report:
        server = self.server()
        target = Target(f"virtual time on {self.world.name}", self.deployment.model, True, __version__)
        session = Session(VirtualWire(server, plan.timeout), target, plan, asyncio.Event())
        server.open()
        try:
            return await run_session(session, plan, console)
        finally:
            server.close()


def _enough(deployment: Deployment) -> int:
    """Devices with which no two workers of a tier share one, in any topology."""
    return 3 * max(deployment.encoders, deployment.prefillers, deployment.decoders)
