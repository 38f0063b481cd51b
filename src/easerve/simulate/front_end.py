"""The front end in virtual time, and a client on the same machine: what they compute takes cores from workers.

Both are one process here, which does one thing after the other on the core that has least to do, and shares it evenly
with what else runs there. A token wakes it: between cores that have as much to do, a system leaves it with who woke it,
which was at a step (Linux's `wake_affine`). Derived here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from easerve.costs.profile_file import ServerTime
from easerve.simulate.device import Device
from easerve.simulate.requests import Item

SENDERS = ("decode", "prefill")  # of tokens: kinds of work, most likely first


class FrontEnd:
    """Where nothing is known of its times it takes none."""

    def __init__(self, times: ServerTime, cores: Sequence[Device]) -> None:
        self._times = times
        self._cores = list(cores)
        self._turn = asyncio.Lock()

    async def take_in(self, media: Sequence[Item]) -> None:
        """A request, from the client to where the pipeline takes it over. Sound counts as a picture of its samples."""
        times = self._times
        pixels = sum(one.width * one.height for one in media)
        await self._compute(times.request + times.picture * len(media) + times.pixel * pixels)

    async def pass_on(self) -> None:
        """A token, from the worker to the client."""
        await self._compute(self._times.token, SENDERS)

    async def _compute(self, seconds: float, wakers: Sequence[str] = ()) -> None:
        if seconds <= 0:
            return
        async with self._turn:
            await self._core(wakers).work(lambda share, beside: seconds * (share + beside) / share)

    def _core(self, wakers: Sequence[str]) -> Device:
        """Of equals, one where the first of these kinds of work runs, or else the one it has not been on for longest:
        bound to none, it gets in the way of all."""

        def rank(core: Device) -> tuple[int, int]:
            kinds = core.kinds
            return len(kinds), next((place for place, kind in enumerate(wakers) if kind in kinds), len(wakers))

        chosen = min(self._cores, key=rank)
        self._cores.remove(chosen)
        self._cores.append(chosen)
        return chosen
