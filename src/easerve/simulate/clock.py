"""Virtual time: an asyncio event loop whose clock jumps to the next timer as soon as nothing is left to do now.

Code on it sees an ordinary loop: `loop.time()` is seconds since the start, `asyncio.sleep` and `asyncio.timeout` take
as long as they say. No thread, no socket, no wall clock, so a run is the same each time; timers of one moment fire in
the order in which they were set.
"""

from __future__ import annotations

import asyncio
from asyncio.base_events import BaseEventLoop
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import Context
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, TypeVar, TypeVarTuple

from easerve.errors import EAServeError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MOST_CANCELLED = 100  # timers that are kept till their moment, however few others there are


class Deadlock(EAServeError):
    """Something is waited for that nothing will ever bring about."""

    code = "deadlock"


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. Raises Deadlock when it waits, and no timer is set that could end the waiting."""
    returned: list[T] = []

    async def keep() -> None:  # a runner prints its task where nobody sees it, and a report is long
        returned.append(await main)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(keep())
    return returned[0]


class _Timer(asyncio.TimerHandle):
    """Knows whether it waits for its moment."""

    waits = True


class VirtualLoop(BaseEventLoop):
    """Replaces what asyncio's loops do between callbacks; there is nothing that a selector could select from."""

    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._cancelled = 0  # of them
        self._numbers = count()

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Without what a loop that threads and debuggers look at does besides: it is most of what a run calls."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._cancelled > MOST_CANCELLED and 2 * self._cancelled > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[2].cancelled()]
            heapify(self._timers)
            self._cancelled = 0
        timer = _Timer(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        assert isinstance(handle, _Timer)
        self._cancelled += handle.waits

    def _run_once(self) -> None:
        ready = self._ready
        if not ready and not self._stopping:
            self._jump()
        for _ in range(len(ready)):  # what these add comes next time, as on any loop
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _jump(self) -> None:
        """To the next timer; all of that moment are ready then."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
            self._cancelled -= 1
        if not timers:
            raise Deadlock(f"everything waits, and nothing is due any more, {self._now:g} s after the start")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            timer = heappop(timers)[2]
            timer.waits = False
            self._cancelled -= timer.cancelled()
            self._ready.append(timer)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Here and now: a thread would make results depend on the machine."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _write_to_self(self) -> None:
        """Nothing sleeps that would have to be woken."""
