"""One server under one plan: warm it up, measure it unloaded, and put loads on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any

from easerve.bench.generator import Generator, Observed, Silent, Watcher
from easerve.bench.metrics import Summary, by_modality
from easerve.bench.objectives import EVERY, MODERATE, ByModality, Unloaded, tiers, unloaded
from easerve.bench.plan import Plan
from easerve.bench.report import Run
from easerve.bench.target import Target
from easerve.bench.wire import Wire
from easerve.errors import EAServeError


class Session:
    """Loads run one at a time. Every load draws requests of its own, so that no picture comes twice."""

    def __init__(self, wire: Wire, target: Target, plan: Plan, stop: asyncio.Event) -> None:
        self.target = target
        self.unloaded: dict[str, Unloaded] = {}
        self.tiers: list[ByModality] = []
        self.stop = stop
        self._wire = wire
        self._plan = plan

    @property
    def objectives(self) -> ByModality | None:
        """Those given; else the moderate tier, once the unloaded server has been measured."""
        if self._plan.objectives.given:
            return {EVERY: self._plan.objectives}
        return self.tiers[MODERATE - 1] if self.tiers else None

    @property
    def objectives_source(self) -> str:
        return "given" if self._plan.objectives.given else f"tier {MODERATE}, of the unloaded latency"

    async def warm_up(self) -> None:
        """Not counted. Raises EAServeError with the server's words if it answers none of the requests."""
        await self._one_by_one("warm-up", self._plan.warmup)

    async def measure_unloaded(self) -> None:
        """Latencies one request at a time, and the tiers that are multiples of them."""
        observed = await self._one_by_one("unloaded", self._plan.unloaded)
        self.unloaded = unloaded(observed.records)
        self.tiers = tiers(self.unloaded)

    async def at_rate(self, rate: float, purpose: str, watcher: Watcher) -> Run:
        """Open loop; `purpose` names the run, and with the seed decides its requests and their moments."""
        moments = self._moments(rate, purpose, self._plan.requests)
        prepared = await self._prepare(purpose, len(moments))
        if len(prepared) < len(moments):  # the user's own, each once
            moments = self._moments(rate, purpose, len(prepared))
        async with self._wire.watched() as utilisation:
            observed = await self._generator(watcher).open_loop(prepared[: len(moments)], moments)
        shown = rate or len(moments) / (max(moments, default=0.0) or 1.0)
        return Run(shown, None, observed, self._groups(observed), utilisation)

    async def at_concurrency(self, concurrency: int, purpose: str, watcher: Watcher) -> Run:
        """Closed loop. With a number of requests they are made beforehand; without, as they are needed."""
        plan = self._plan
        prepared = (
            self._requests(purpose) if plan.requests is None else iter(await self._prepare(purpose, plan.requests))
        )
        async with self._wire.watched() as utilisation:
            observed = await self._generator(watcher).closed_loop(prepared, concurrency, plan.seconds)
        return Run(None, concurrency, observed, self._groups(observed), utilisation)

    async def _one_by_one(self, purpose: str, number: int) -> Observed:
        prepared = await self._prepare(purpose, number)
        observed = await self._generator(Silent()).closed_loop(iter(prepared), 1, None)
        failed = [record for record in observed.records if record.error is not None]
        if failed and len(failed) == len(observed.records):
            raise EAServeError(f"no request of the {purpose} was answered: {failed[0].error} {failed[0].message}")
        return observed

    def _moments(self, rate: float, purpose: str, number: int | None) -> list[float]:
        rng = self._plan.rng(f"arrivals of {purpose}")
        return self._plan.arrivals.moments(rate, rng, number, self._plan.seconds)

    def _generator(self, watcher: Watcher) -> Generator:
        return Generator(self._wire, watcher, self.stop)

    def _groups(self, observed: Observed) -> dict[str, Summary]:
        return by_modality(observed.records, observed.seconds, self.objectives, self.tiers)

    async def _prepare(self, purpose: str, number: int) -> list[Any]:
        return await asyncio.to_thread(lambda: list(islice(self._requests(purpose), number)))

    def _requests(self, purpose: str) -> Iterator[Any]:
        requests = self._plan.workload.requests(self._plan.rng(f"requests of {purpose}"), self._wire.draw)
        return map(self._wire.prepare, requests)
