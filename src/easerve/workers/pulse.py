"""Whether a worker that says nothing is stalled, or only gets no core on a busy machine.

Linux keeps for each thread the nanoseconds it ran, the nanoseconds it waited for a core and how often it got one. The
second grows when a wait ends; a wait that goes on is a thread that can run and whose numbers stand still. What is
stopped, locked up or asleep waits for no core, and what spins has one. Derived here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

STARVED_PATIENCE = 4  # times as quiet may be who gets no core: a bound, since a spinning process waits for cores too
MOST = 0.5  # of the time


class Pulse:
    """Counts looks at one process between its messages."""

    def __init__(self, starved: Callable[[int], bool]) -> None:
        self._starved = starved
        self._quiet = 0.0

    def beat(self) -> None:
        self._quiet = 0.0

    def look(self, pid: int) -> float:
        """Looks in a row that found nothing new, each as a fraction if no core was to be had since the one before."""
        starved = self._quiet >= 1 and self._starved(pid)  # one look without a message is nothing unusual
        self._quiet += 1 / STARVED_PATIENCE if starved else 1
        return self._quiet


class _Thread(NamedTuple):
    can_run: bool
    ran: int  # ns
    waited: int  # ns
    turns: int


class CoreWaits:
    """Of one process, from one look to the next."""

    def __init__(self, proc: Path = Path("/proc"), clock: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._clock = clock
        self._looked = clock()
        self._threads: dict[str, _Thread] = {}

    def starved(self, pid: int) -> bool:
        """Whether its threads spent most of the time since the last look waiting for a core.

        False on the first look, and where the system does not tell.
        """
        before, began = self._threads, self._looked
        self._threads, self._looked = _threads(self._proc / str(pid) / "task"), self._clock()
        both = [(before[name], thread) for name, thread in self._threads.items() if name in before]
        waited = sum(now.waited - then.waited for then, now in both) / 1e9
        waits_on = any(now.can_run and now == then for then, now in both)
        return waits_on or waited > MOST * (self._looked - began)


def _threads(tasks: Path) -> dict[str, _Thread]:
    """None on another system, or when one has just ended."""
    try:
        return {task.name: _thread(task) for task in tasks.iterdir()}
    except (OSError, ValueError, IndexError):
        return {}


def _thread(task: Path) -> _Thread:
    state = (task / "stat").read_text().rpartition(")")[2].split()[0]
    ran, waited, turns = map(int, (task / "schedstat").read_text().split())
    return _Thread(state == "R", ran, waited, turns)
