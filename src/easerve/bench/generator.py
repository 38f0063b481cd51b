"""Load: open (requests leave when they are due, whatever became of earlier ones) or closed (so many in flight)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from easerve.bench.lag import LoopLag
from easerve.bench.record import Record
from easerve.bench.wire import Wire


class Watcher(Protocol):
    """Told of each request as it leaves and as it ends."""

    def left(self) -> None: ...

    def ended(self, record: Record) -> None: ...


class Silent:
    """A watcher that watches nothing."""

    def left(self) -> None:
        pass

    def ended(self, record: Record) -> None:
        pass


@dataclass
class Observed:
    """All requests that ended, in the order in which they were sent; `seconds` from the start to the last's end."""

    records: list[Record]
    seconds: float
    overslept: Sequence[float]  # of the generator's loop, seconds
    cpu_share: float  # the generator's, of one core
    interrupted: bool
    goes_first: bool = True  # the generator got a core as soon as it woke


@dataclass
class Generator:
    """Runs load through `wire` until it is over or `stop` is set; then what is in flight is dropped, not counted.

    What it is given to send has been prepared by the same wire. Time is the loop's. While load lasts, this thread
    comes before others, and nothing that it starts does (bench/lag.py).
    """

    wire: Wire
    watcher: Watcher = field(default_factory=Silent)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def open_loop(self, prepared: Sequence[Any], moments: Sequence[float]) -> Observed:
        """Each request at its moment, in seconds from now."""
        async with self._run() as run:
            for index, (one, moment) in enumerate(zip(prepared, moments, strict=True)):
                if not await run.reached(moment):
                    break
                run.launch(one, index, moment)
            await run.drained()
        return run.observed

    async def closed_loop(self, prepared: Iterator[Any], concurrency: int, seconds: float | None) -> Observed:
        """`concurrency` lanes, each sending its next when its last has ended, until `prepared` or `seconds` end."""
        numbered = enumerate(prepared)

        async def lane(run: _Run) -> None:
            for index, one in numbered:
                moment = run.now()
                if self.stop.is_set() or (seconds is not None and moment >= seconds):
                    return
                await run.launch(one, index, moment)

        async with self._run() as run:
            for _ in range(concurrency):
                run.tasks.add(asyncio.create_task(lane(run)))
            await run.drained()
        return run.observed

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[_Run]:
        async with self.wire.lag() as lag:
            run = _Run(self, lag)
            try:
                yield run
            finally:
                run.drop()


class _Run:
    """The requests of one load."""

    def __init__(self, generator: Generator, lag: LoopLag) -> None:
        self._generator = generator
        self._lag = lag
        self._records: list[Record] = []
        self._clock = asyncio.get_running_loop().time
        self._start = self._clock()
        self.tasks: set[asyncio.Task[None]] = set()

    def now(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    async def reached(self, moment: float) -> bool:
        """True at `moment`, False as soon as the load is stopped."""
        stop = self._generator.stop
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._start + moment):
                await stop.wait()
        return not stop.is_set()

    def launch(self, prepared: Any, index: int, moment: float) -> asyncio.Task[None]:
        task = asyncio.create_task(self._one(prepared, index, moment))
        self.tasks.add(task)
        return task

    async def _one(self, prepared: Any, index: int, moment: float) -> None:
        self._generator.watcher.left()
        record = await self._generator.wire.send(prepared, index, moment, self.now)
        self._records.append(record)
        self._generator.watcher.ended(record)

    async def drained(self) -> None:
        """Returns when all tasks there are now have ended, or at a stop. Raises what one of them raised."""
        stopping: asyncio.Future[Any] = asyncio.create_task(self._generator.stop.wait())
        work: asyncio.Future[Any] = asyncio.gather(*self.tasks)
        try:
            await asyncio.wait({stopping, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            stopping.cancel()
            work.cancel()

    def drop(self) -> None:
        for task in self.tasks:
            task.cancel()

    @property
    def observed(self) -> Observed:
        records = sorted(self._records, key=lambda record: record.index)
        return Observed(
            records=records,
            seconds=max((record.ended for record in records), default=0.0),
            overslept=self._lag.overslept,
            cpu_share=self._lag.cpu_share,
            interrupted=self._generator.stop.is_set(),
            goes_first=self._lag.goes_first,
        )
