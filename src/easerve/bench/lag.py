"""The generator's own event loop under load: a slow client must not be taken for a slow server."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack, suppress

from easerve.priority import going_first

TICK = 0.02  # seconds between looks


class LoopLag:
    """Between enter and exit the loop's thread goes first where that is allowed (easerve.priority); noted are by how
    much each sleep of `TICK` was overslept all the same, and the CPU time used. One at a time in a thread."""

    goes_first = False

    def __init__(self) -> None:
        self.overslept: list[float] = []  # seconds
        self.cpu_share = 0.0  # of one core

    async def __aenter__(self) -> LoopLag:
        self._place = ExitStack()
        self.goes_first = self._place.enter_context(going_first())
        self._began = (time.perf_counter(), time.process_time())
        self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._place.close()
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        wall, cpu = time.perf_counter() - self._began[0], time.process_time() - self._began[1]
        self.cpu_share = cpu / wall if wall else 0.0

    async def _look(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK)
            self.overslept.append(max(0.0, time.perf_counter() - before - TICK))


class NoLag(LoopLag):
    """Of a loop whose clock waits for it."""

    goes_first = True

    async def __aenter__(self) -> NoLag:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass
