"""A worker in virtual time, for the pipeline like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from easerve.errors import WorkerLost
from easerve.pipeline.stages import EncodedBatch, SequenceJob, Sink
from easerve.request import MediaItem
from easerve.simulate.desk import Desk
from easerve.simulate.encoding import EncodeDesk
from easerve.simulate.generating import GenerateDesk


class VirtualWorker:
    """Implements EncodeStage and GenerateStage; only those of its `stages` are asked for.

    Desks with one `woken` take turns in one loop; two loops go on side by side.
    """

    def __init__(
        self, name: str, stages: Sequence[str], encoding: EncodeDesk | None, generating: GenerateDesk | None
    ) -> None:
        self.name = name
        self.stages = tuple(stages)
        self.decodes = "decode" in stages
        self._encoding = encoding
        self._generating = generating
        self._loops: list[asyncio.Task[None]] = []

    @property
    def desks(self) -> list[Desk]:
        return [desk for desk in (self._encoding, self._generating) if desk is not None]

    async def encode(self, items: Sequence[MediaItem]) -> EncodedBatch:
        assert self._encoding is not None
        return await self._encoding.encode(items)

    def start(self, job: SequenceJob, sink: Sink) -> None:
        assert self._generating is not None
        self._generating.start(job, sink)

    def cancel(self, sequence_id: str) -> None:
        assert self._generating is not None
        self._generating.cancel(sequence_id)

    def open(self) -> None:
        """Begin to work."""
        turns: dict[asyncio.Event, list[Desk]] = {}
        for desk in self.desks:
            turns.setdefault(desk.station.woken, []).append(desk)
        self._loops = [asyncio.get_running_loop().create_task(_run(*loop)) for loop in turns.items()]

    def lose(self, reason: str) -> None:
        """It is gone: everything outstanding on it ends in WorkerLost."""
        self.close()
        for desk in self.desks:
            desk.lose(WorkerLost(f"worker {self.name} {reason}", retry_after=5))

    def close(self) -> None:
        for loop in self._loops:
            loop.cancel()


async def _run(woken: asyncio.Event, desks: Sequence[Desk]) -> None:
    """As the loop of a worker's thread: take in what has arrived, then let each desk do a piece of work."""
    while True:
        if not any(desk.has_work() for desk in desks):
            woken.clear()
            await woken.wait()
        for desk in desks:
            if desk.has_work():
                await desk.work()
