"""One life of a worker: its process, its connection, and how it ended."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from easerve.transfer.ledger import Ledger
from easerve.workers.client import WorkerClient
from easerve.workers.hub import Hub
from easerve.workers.launcher import LocalProcess
from easerve.workers.messages import FromWorker, GaveUp, Message, Progress, Ready, Stop
from easerve.workers.pulse import CoreWaits, Pulse
from easerve.workers.spec import ProgressReport, WorkerSpec

_numbers = itertools.count()
LAST_WORDS_SECONDS = 0.05  # the last message of a dead process may still be in the socket

LOADING_PATIENCE = 10  # times as quiet may be who is loading: some imports let no other thread run


class Life:
    """Begins when made; `bury` settles what it leaves. No other life, past or future, has its identity."""

    def __init__(self, spec: WorkerSpec, hub: Hub, ledger: Ledger, on_progress: ProgressReport) -> None:
        loop = asyncio.get_running_loop()
        self._name = spec.name
        self._identity = f"{spec.name}.{next(_numbers)}"
        self._hub = hub
        self._ledger = ledger
        self._on_progress = on_progress
        self._ready: asyncio.Future[Ready] = loop.create_future()
        self._reason = ""  # of its end, where that is known before the process has ended
        self._pulse = Pulse(CoreWaits().starved)
        self._killed = False
        self.client = WorkerClient(spec.name, spec.stages, self._send, ledger)
        hub.register(self._identity, self._handle)
        self._launch = loop.create_task(LocalProcess.start(spec, self._identity), name=f"launch {self._identity}")

    @property
    def is_up(self) -> bool:
        return self._ready.done()

    @property
    def pid(self) -> int | None:
        """None before the process is there, or if it could not be started."""
        return self._process.pid if self._process else None

    async def ready(self, patience: float) -> Ready | None:
        """Returns when it is loaded, or with None when it ended before that, if need be killed after `patience`."""
        if (process := await self._launched()) is None:
            return None
        ended = asyncio.ensure_future(process.wait())
        either: set[asyncio.Future[Any]] = {self._ready, ended}
        try:
            done, _ = await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
        if not done:
            self.kill(f"was not ready after {patience:g} s and was killed")
        return self._ready.result() if self._ready.done() else None

    async def death(self) -> str:
        """Why, once it has ended."""
        if (process := await self._launched()) is None:
            return self._reason
        code = await process.wait()
        await asyncio.sleep(LAST_WORDS_SECONDS)
        if self._reason:
            return self._reason
        how = f"died ({f'signal {-code}' if code < 0 else f'exit code {code}'})"
        if self.is_up:
            return how
        words = process.last_words
        return f"{how} while starting{': ' + words if words else ''}"

    def check_pulse(self, longest_quiet: float) -> None:
        """Called at every look for heartbeats; kills a process that was quiet for too many of them."""
        if (pid := self.pid) is None or self._killed:
            return
        longest_quiet *= 1 if self.is_up else LOADING_PATIENCE
        if self._pulse.look(pid) > longest_quiet:
            self.kill("sent no heartbeat, was taken for stalled and killed")

    def kill(self, reason: str) -> None:
        """End a process that does not do its work; a reason that it gave itself goes before."""
        if self._process:
            self._killed = True
            self._reason = self._reason or reason
            self._process.kill()

    def bury(self, reason: str) -> None:
        """End everything that waits for it, and give back what it had not told of."""
        self._hub.unregister(self._identity)
        self.client.lose(reason)
        self._ledger.sweep(self._identity)

    async def stop(self, patience: float) -> None:
        """Ask it to end, give it `patience` seconds, then insist."""
        if (process := await self._launched()) is not None:
            self._send(Stop())
            await process.end(patience)
        self.bury("was stopped")

    @property
    def _process(self) -> LocalProcess | None:
        launched = self._launch.done() and self._launch.exception() is None
        return self._launch.result() if launched else None

    async def _launched(self) -> LocalProcess | None:
        try:
            return await asyncio.shield(self._launch)
        except OSError as error:  # out of memory, processes or open files
            self._reason = f"could not be started: {error.strerror or error}"
            return None

    def _send(self, message: Message) -> None:
        self._hub.send(self._identity, message)

    def _handle(self, message: FromWorker) -> None:
        self._pulse.beat()
        match message:
            case Progress(text=text):
                self._on_progress(self._name, text)
            case Ready():
                self._ready.set_result(message)
            case GaveUp(reason=reason):
                self._reason = self._reason or reason
            case _:
                self.client.handle(message)
