"""The loop of a worker thread: takes messages in and lets its desks work, one piece after the other.

A desk does one kind of work. A thread that only encodes, one that only generates and one that does both (the aggregated
baseline) run the same loop over the desks they were given.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Any, Protocol

from easerve.errors import EAServeError
from easerve.workers.messages import Failure, Heartbeat, Message, Stop, ToWorker

logger = logging.getLogger(__name__)

Send = Callable[[Message], None]


class Desk(Protocol):
    """Used by one thread, except for `report`."""

    @property
    def kinds(self) -> tuple[type[Message], ...]:
        """Of messages that it takes."""
        ...

    def take(self, message: Any) -> None:
        """Take a message of one of its kinds in. Answers for every failure itself."""
        ...

    def has_work(self) -> bool: ...

    def work(self) -> None:
        """One piece: a batch, a step. Likewise."""
        ...

    def report(self, beat: Heartbeat) -> Heartbeat:
        """The heartbeat with this desk's figures. Called from another thread: reads counters only."""
        ...


class Loop(Protocol):
    """What a worker thread runs."""

    desks: Sequence[Desk]

    @property
    def kinds(self) -> Iterable[type[Message]]:
        """Of messages that it takes."""
        ...

    def put(self, message: ToWorker) -> None:
        """Hand in a message of these kinds, or a Stop; from another thread."""
        ...

    def run(self) -> None:
        """Returns after a Stop."""
        ...


class StageLoop:
    """Implements `Loop` for what computes."""

    def __init__(self, desks: Sequence[Desk]) -> None:
        self.desks = desks
        self._inbox: SimpleQueue[ToWorker] = SimpleQueue()
        self._by_kind = {kind: desk for desk in desks for kind in desk.kinds}
        self._stopped = False

    @property
    def kinds(self) -> Iterable[type[Message]]:
        return self._by_kind

    def put(self, message: ToWorker) -> None:
        self._inbox.put(message)

    def run(self) -> None:
        while not self._stopped:
            self._receive()
            for desk in self.desks:
                if desk.has_work():
                    desk.work()

    def _receive(self) -> None:
        """Take in all that has arrived; wait for something only if there is nothing to do."""
        if not any(desk.has_work() for desk in self.desks):
            self._handle(self._inbox.get())
        while not self._inbox.empty():  # this thread is the only reader
            self._handle(self._inbox.get())

    def _handle(self, message: ToWorker) -> None:
        if isinstance(message, Stop):
            self._stopped = True
        else:
            self._by_kind[type(message)].take(message)


def failure(error: Exception, what: str) -> Failure:
    """Our own errors keep their words; anything else is ours to look into, and named by kind only."""
    if isinstance(error, EAServeError):
        return Failure(type(error).__name__, error.message, error.param, error.code, error.retry_after)
    logger.exception("unexpected error in %s", what, exc_info=error)
    return Failure("EAServeError", f"{what} failed in the engine ({type(error).__name__}); see the server's log")
