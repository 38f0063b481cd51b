"""A worker's stage in virtual time. As the desks of a worker process, each does one piece of work when it is its turn;
the time that computing takes there passes here.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass

from easerve.costs.base import LinkCosts, StageCosts
from easerve.errors import WorkerLost
from easerve.simulate.device import Device, Seconds
from easerve.simulate.memory import VirtualMemory


@dataclass(frozen=True)
class Station:
    """Where a desk stands. `woken` is to be set when there is work. `around`: seconds that a worker spends around an
    engine step."""

    worker: str
    costs: StageCosts
    device: Device
    memory: VirtualMemory
    link: LinkCosts
    woken: asyncio.Event
    around: float = 0.0


class Desk(ABC):
    """`busy`: seconds at work so far."""

    stage: str  # as `bench` calls it

    def __init__(self, station: Station) -> None:
        self.station = station
        self.busy = 0.0

    @abstractmethod
    def has_work(self) -> bool: ...

    @abstractmethod
    async def work(self) -> None:
        """One piece."""

    @abstractmethod
    def lose(self, lost: WorkerLost) -> None:
        """End everything outstanding."""

    async def spend(self, seconds: Seconds, kind: str, claim: float | None = None) -> float:
        """How long the piece took in the end."""
        now = asyncio.get_running_loop().time
        began = now()
        await self.station.device.work(seconds, claim, kind)
        self.busy += now() - began
        return now() - began
