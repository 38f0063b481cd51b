"""The front end in virtual time, and a client on the same machine: what they compute takes cores from workers.

Both are one process here, which does one thing after the other on the core that has least to do, and shares it evenly
with what else runs there. Between cores that have as much to do it stays where it was, as a process does that is woken
(Linux's `select_task_rq_fair` takes the core it ran on before the waker's, other things being equal). Derived here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from easerve.costs.profile_file import ServerTime
from easerve.simulate.device import Device
from easerve.simulate.requests import Item


class FrontEnd:
    """Where nothing is known of its times it takes none."""

    def __init__(self, times: ServerTime, cores: Sequence[Device]) -> None:
        self._times = times
        self._cores = list(cores)  # where it was last comes first
        self._turn = asyncio.Lock()

    async def take_in(self, media: Sequence[Item]) -> None:
        """A request, from the client to where the pipeline takes it over. Sound counts as a picture of its samples."""
        times = self._times
        pixels = sum(one.width * one.height for one in media)
        await self._compute(times.request + times.picture * len(media) + times.pixel * pixels)

    async def pass_on(self) -> None:
        """A token, from the worker to the client."""
        await self._compute(self._times.token)

    async def _compute(self, seconds: float) -> None:
        if seconds <= 0:
            return
        async with self._turn:
            await self._core().work(lambda share, beside: seconds * (share + beside) / share)

    def _core(self) -> Device:
        chosen = min(self._cores, key=lambda core: len(core.kinds))  # the first of equals
        self._cores.remove(chosen)
        self._cores.insert(0, chosen)
        return chosen
