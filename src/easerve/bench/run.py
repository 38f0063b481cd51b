"""A benchmark from start to report."""

from __future__ import annotations

import asyncio

import httpx
from rich.console import Console

from easerve.bench.knee import Search
from easerve.bench.objectives import EVERY
from easerve.bench.plan import Climb, Closed, Plan, Rates
from easerve.bench.progress import BenchProgress
from easerve.bench.report import Report, Run
from easerve.bench.session import Session
from easerve.bench.target import discover
from easerve.bench.wire import HttpWire


async def run_bench(
    plan: Plan, http: httpx.AsyncClient, model: str | None, console: Console, stop: asyncio.Event
) -> Report:
    """A benchmark of the server behind `http`. Raises Unavailable if there is none, and what `run_session` raises."""
    target = await discover(http, model)
    wire = HttpWire(http, target, ignore_eos=plan.ignore_eos, timeout=plan.timeout)
    return await run_session(Session(wire, target, plan, stop), plan, console)


async def run_session(session: Session, plan: Plan, console: Console) -> Report:
    """When the session is stopped, what has been done until then is reported.

    Raises EAServeError if nothing of the warm-up is answered.
    """
    with BenchProgress(console) as progress:
        bench = _Bench(plan, session, progress)
        await bench.prepare()
        knee, searched = await bench.load()
    return Report(
        plan=plan,
        target=session.target,
        unloaded=session.unloaded,
        objectives=session.objectives,
        objectives_source=session.objectives_source,
        tiers=session.tiers,
        runs=sorted(bench.runs, key=lambda run: run.rate or 0.0),
        knee=knee,
        searched=searched,
        interrupted=session.stop.is_set(),
    )


class _Bench:
    """The loads of one report."""

    def __init__(self, plan: Plan, session: Session, progress: BenchProgress) -> None:
        self.runs: list[Run] = []
        self._plan = plan
        self._session = session
        self._progress = progress

    async def prepare(self) -> None:
        if self._plan.warmup:
            self._progress.note(f"warm-up: {self._plan.warmup} requests")
            await self._session.warm_up()
        if self._plan.unloaded and not self._session.stop.is_set():
            self._progress.note(f"unloaded: {self._plan.unloaded} requests, one at a time")
            await self._session.measure_unloaded()

    async def load(self) -> tuple[float | None, bool]:
        """The knee, and whether one was looked for."""
        load = self._plan.load
        if self._session.stop.is_set():
            return None, False
        if isinstance(load, Closed):
            line = self._progress.load(f"concurrency {load.concurrency}", self._plan.requests)
            self.runs.append(await self._session.at_concurrency(load.concurrency, "run 1", line))
            return None, False
        search = Search(self._share)
        if isinstance(load, Rates):
            await search.through(load.rates)
        else:
            await search.climb(self._start())
        await search.bisect(load.bisections)
        searched = isinstance(load, Climb) or len(search.shares) > 1
        return (search.knee if searched and self._session.objectives else None), searched

    def _start(self) -> float:
        """Half of what a server does that takes one request at a time."""
        one = self._session.unloaded.get(EVERY)
        return 1.0 if one is None else 0.5 / max(one.e2e, 1e-3)

    async def _share(self, rate: float) -> float | None:
        """Share of the requests within the objective at this rate; 1 where there is none."""
        name = "trace" if self._plan.arrivals.name == "trace" else f"{rate:.3g} req/s"
        line = self._progress.load(name, self._plan.requests)
        run = await self._session.at_rate(rate, f"run {len(self.runs) + 1}", line)
        self.runs.append(run)
        if run.observed.interrupted:
            return None
        return run.all.good.share if run.all.good else 1.0
