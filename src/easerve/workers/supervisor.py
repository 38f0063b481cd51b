"""Keeps all workers of a server alive: starts them, tells when each is ready, restarts what dies, ends what stalls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from easerve.errors import StartupError
from easerve.policy.restart import RestartRule
from easerve.transfer.ledger import Ledger
from easerve.workers.client import WorkerClient
from easerve.workers.hub import Hub
from easerve.workers.life import Life
from easerve.workers.messages import Ready
from easerve.workers.spec import ProgressReport, WorkerSpec

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.5  # how often heartbeats are looked for; workers send one as often


class Pools(Protocol):
    """Whoever has work for workers."""

    def worker_up(self, worker: WorkerClient) -> None: ...

    def worker_lost(self, name: str, *, returns: bool) -> None: ...


@dataclass(frozen=True)
class Patience:
    """Seconds."""

    startup: float = 300.0
    silence: float = 5.0  # without a heartbeat
    stop: float = 2.0  # for a worker that was asked to stop


@dataclass(eq=False)
class _Post:
    """One worker of the deployment, through all its lives."""

    spec: WorkerSpec
    first: asyncio.Future[Ready] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    life: Life | None = None
    deaths: int = 0  # in a row
    restarts: int = 0
    keeper: asyncio.Task[None] | None = None


class Supervisor:
    """All worker processes of one server."""

    def __init__(
        self,
        *,
        hub: Hub,
        ledger: Ledger,
        pools: Pools,
        on_progress: ProgressReport,
        restart: RestartRule,
        patience: Patience,
    ) -> None:
        self._hub = hub
        self._ledger = ledger
        self._pools = pools
        self._on_progress = on_progress
        self._restart = restart
        self._patience = patience
        self._posts: dict[str, _Post] = {}
        self._watch: asyncio.Task[None] | None = None

    @property
    def clients(self) -> dict[str, WorkerClient]:
        """Of the workers that are up."""
        return {name: post.life.client for name, post in self._posts.items() if post.life and post.life.is_up}

    @property
    def pids(self) -> dict[str, int]:
        """Of all worker processes, also those that are loading."""
        return {name: post.life.pid for name, post in self._posts.items() if post.life and post.life.pid}

    @property
    def restarts(self) -> dict[str, int]:
        return {name: post.restarts for name, post in self._posts.items()}

    async def start(self, specs: Sequence[WorkerSpec]) -> dict[str, Ready]:
        """Start all, and wait until all are ready. Raises StartupError with the first reason."""
        loop = asyncio.get_running_loop()
        self._posts = {spec.name: _Post(spec) for spec in specs}
        for name, post in self._posts.items():
            post.keeper = loop.create_task(self._keep(post), name=f"keeper of {name}")
        self._watch = loop.create_task(self._look_for_heartbeats(), name="heartbeats")
        try:
            async with asyncio.timeout(self._patience.startup):
                ready = await asyncio.gather(*(post.first for post in self._posts.values()))
        except TimeoutError:
            late = ", ".join(name for name, post in self._posts.items() if post.life is None or not post.life.is_up)
            raise StartupError(
                f"{late} not ready after {self._patience.startup:g} s; raise --startup-timeout"
            ) from None
        finally:
            for post in self._posts.values():
                post.first.cancel()
        return dict(zip(self._posts, ready, strict=True))

    async def stop(self) -> None:
        """End all workers: ask first, then insist."""
        tasks = [post.keeper for post in self._posts.values() if post.keeper]
        if self._watch is not None:
            tasks.append(self._watch)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        lives = [post.life for post in self._posts.values() if post.life]
        await asyncio.gather(*(life.stop(self._patience.stop) for life in lives))

    async def _keep(self, post: _Post) -> None:
        """One worker's lives, one after the other."""
        while True:
            self._on_progress(post.spec.name, "starting")
            post.life = life = Life(post.spec, self._hub, self._ledger, self._on_progress)
            began = asyncio.get_running_loop().time()
            ready = await life.ready(self._patience.startup)
            if ready is not None:
                self._on_progress(post.spec.name, _loaded(ready))
                self._pools.worker_up(life.client)
                if not post.first.done():
                    post.first.set_result(ready)
            reason = await life.death()
            if not post.first.done():
                post.first.set_exception(StartupError(f"worker {post.spec.name} {reason}"))
                return
            lived = asyncio.get_running_loop().time() - began
            post.deaths = 1 if lived >= self._restart.long_enough else post.deaths + 1
            delay = self._restart.delay(post.deaths)
            self._bury(post, life, reason, delay)
            if delay is None:
                return
            await asyncio.sleep(delay)
            post.restarts += 1

    def _bury(self, post: _Post, life: Life, reason: str, delay: float | None) -> None:
        post.life = None
        what = "is given up" if delay is None else f"is restarted in {delay:g} s" if delay else "is restarted"
        logger.error("worker %s %s and %s", post.spec.name, reason, what)
        self._pools.worker_lost(post.spec.name, returns=delay is not None)
        life.bury(reason)

    async def _look_for_heartbeats(self) -> None:
        """Count looks without a heartbeat, not seconds: when this process was stopped itself, nobody else is late."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            for post in self._posts.values():
                if post.life is not None:
                    post.life.check_pulse(self._patience.silence / BEAT_SECONDS)


def _loaded(ready: Ready) -> str:
    return f"ready, loaded in {ready.load_seconds:.1f} s, {ready.resident_bytes / 2**30:.2f} GiB of host memory"
