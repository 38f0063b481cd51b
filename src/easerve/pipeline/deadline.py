"""Deadlines of one request's waits, at the price of one timer for many waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from easerve.errors import DeadlineExceeded


@dataclass(frozen=True, eq=False)
class Wait:
    """For what a stage makes."""

    stage: str
    seconds: float  # at most
    due: float  # loop time


class Watch:
    """Tells of a wait that lasts too long.

    A wait begins with every token and soon ends, so a timer that goes off looks whether it is still the same wait; if
    another one is on, it is set again.
    """

    def __init__(self, tell: Callable[[Wait], None]) -> None:
        self.current: Wait | None = None
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, stage: str, seconds: float) -> None:
        wait = self.current = Wait(stage, seconds, self._loop.time() + seconds)
        if self._timer is None or self._timer.when() > wait.due:
            self._set(wait)

    def end(self) -> None:
        self.current = None

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set(self, wait: Wait) -> None:
        self.close()
        self._timer = self._loop.call_at(wait.due, self._look, wait)

    def _look(self, wait: Wait) -> None:
        self._timer = None
        if self.current is wait:
            self._tell(wait)
        elif self.current is not None:
            self._set(self.current)


def overdue(stage: str, seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"{stage} did not answer within {seconds:g} s")
