"""Starts all workers at once, tells when each is ready or why it is not, watches them, and stops them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from easerve.errors import StartupError
from easerve.pipeline.stages import Buffers
from easerve.workers.client import WorkerClient
from easerve.workers.hub import Hub
from easerve.workers.launcher import LocalProcess
from easerve.workers.messages import FromWorker, Message, Progress, Ready, StartFailed, Stop
from easerve.workers.spec import WorkerSpec

logger = logging.getLogger(__name__)

ProgressReport = Callable[[str, str], None]  # worker, what it is doing
LostReport = Callable[[str, str], None]  # worker, why
STOP_SECONDS = 2.0


@dataclass
class _Managed:
    spec: WorkerSpec
    client: WorkerClient
    process: LocalProcess
    ready: asyncio.Future[Ready] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    watcher: asyncio.Task[None] | None = None


class Supervisor:
    """All worker processes of one server."""

    def __init__(self, hub: Hub, buffers: Buffers, on_progress: ProgressReport, on_lost: LostReport) -> None:
        self._hub = hub
        self._buffers = buffers
        self._on_progress = on_progress
        self._on_lost = on_lost
        self._workers: dict[str, _Managed] = {}
        self._stopping = False

    @property
    def clients(self) -> dict[str, WorkerClient]:
        return {name: worker.client for name, worker in self._workers.items()}

    @property
    def pids(self) -> dict[str, int]:
        return {name: worker.process.pid for name, worker in self._workers.items()}

    async def start(self, specs: Sequence[WorkerSpec], timeout: float) -> dict[str, Ready]:
        """Start all, and wait until all are ready. Raises StartupError with the first reason, after stopping all."""
        for spec in specs:
            await self._launch(spec)
        waiting = [worker.ready for worker in self._workers.values()]
        try:
            async with asyncio.timeout(timeout):
                ready = await asyncio.gather(*waiting)
        except TimeoutError:
            late = ", ".join(name for name, worker in self._workers.items() if not worker.ready.done())
            raise StartupError(f"{late} not ready after {timeout:g} s; raise --startup-timeout") from None
        finally:
            for one in waiting:
                one.cancel()
        return dict(zip(self._workers, ready, strict=True))

    async def _launch(self, spec: WorkerSpec) -> None:
        def send(message: Message) -> None:
            self._hub.send(spec.name, message)

        client = WorkerClient(spec.name, send, self._buffers)
        worker = _Managed(spec, client, await LocalProcess.start(spec))
        self._workers[spec.name] = worker
        self._hub.register(spec.name, lambda message: self._handle(worker, message))
        self._on_progress(spec.name, "starting")
        worker.watcher = asyncio.get_running_loop().create_task(self._watch(worker), name=f"watch {spec.name}")

    def _handle(self, worker: _Managed, message: FromWorker) -> None:
        match message:
            case Progress(text=text):
                self._on_progress(worker.spec.name, text)
            case Ready():
                self._on_progress(worker.spec.name, "ready")
                if not worker.ready.done():
                    worker.ready.set_result(message)
            case StartFailed(reason=reason) if not worker.ready.done():
                worker.ready.set_exception(StartupError(f"worker {worker.spec.name}: {reason}"))
            case StartFailed(reason=reason):
                logger.error("worker %s gave up: %s", worker.spec.name, reason)
            case _:
                worker.client.handle(message)

    async def _watch(self, worker: _Managed) -> None:
        code = await worker.process.wait()
        if self._stopping:
            return
        name = worker.spec.name
        await asyncio.sleep(0.05)  # its last message may still be in the socket
        reason = f"died ({_describe(code)})"
        if not worker.ready.done():
            words = worker.process.last_words
            worker.ready.set_exception(
                StartupError(f"worker {name} {reason} while starting{': ' + words if words else ''}")
            )
            return
        logger.error("worker %s %s", name, reason)
        self._hub.unregister(name)
        self._on_lost(name, reason)
        worker.client.lose(reason)

    async def stop(self) -> None:
        """End all workers: ask first, then insist."""
        self._stopping = True
        for worker in self._workers.values():
            self._hub.send(worker.spec.name, Stop())
        await asyncio.gather(*(worker.process.end(STOP_SECONDS) for worker in self._workers.values()))
        watchers = [worker.watcher for worker in self._workers.values() if worker.watcher is not None]
        await asyncio.gather(*watchers, return_exceptions=True)
        for worker in self._workers.values():
            worker.client.lose("was stopped")


def _describe(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
