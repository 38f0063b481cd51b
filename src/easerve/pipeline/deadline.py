"""Deadlines of one request's waits, at the price of one timer for many waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from easerve.errors import DeadlineExceeded
from easerve.pipeline.alarm import Alarm


@dataclass(frozen=True, eq=False)
class Wait:
    """For what a stage makes."""

    stage: str
    seconds: float  # at most
    due: float  # loop time


class Watch:
    """Tells of a wait that lasts too long.

    A wait begins with every token and soon ends, so its alarm looks, when it rings, whether the wait of then is due; if
    not, it is set again.
    """

    def __init__(self, tell: Callable[[Wait], None]) -> None:
        self.current: Wait | None = None
        self._tell = tell
        self._now = asyncio.get_running_loop().time
        self._alarm = Alarm(self._look)

    def begin(self, stage: str, seconds: float) -> None:
        self.current = Wait(stage, seconds, self._now() + seconds)
        self._alarm.set(self.current.due)

    def end(self) -> None:
        self.current = None

    def close(self) -> None:
        self._alarm.off()

    def _look(self) -> None:
        self._alarm.off()
        if self.current is None:
            return
        if self._now() < self.current.due:
            self._alarm.set(self.current.due)
        else:
            self._tell(self.current)


def overdue(stage: str, seconds: float) -> DeadlineExceeded:
    return DeadlineExceeded(f"{stage} did not answer within {seconds:g} s")
