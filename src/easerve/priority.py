"""Places on the cores that front end, load generator and workers share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BEFORE_WORKERS = -10  # nice
NO_RIGHT = "no right to real-time priority: on cores shared with the server, times include waits for a core"


def go_first() -> bool:
    """Let this thread have a core as soon as it wakes; False where that is not allowed. Nothing it starts inherits it.

    For threads that make load; `going_first` is for those that do other things too. On few cores a load generator
    queues behind the workers that it measures, some milliseconds at each wake-up. That is as long as a decode step
    takes, so tokens would be noted late and in bunches. It computes for some percent of the time.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (AttributeError, OSError):
        return False
    return True


@contextmanager
def going_first() -> Iterator[bool]:
    """`go_first` until the end of the block, then what was before."""
    before: tuple[int, os.sched_param] | None = None
    with suppress(AttributeError, OSError):
        before = os.sched_getscheduler(0), os.sched_getparam(0)
    first = go_first()
    try:
        yield first
    finally:
        if first and before is not None:
            os.sched_setscheduler(0, *before)


@contextmanager
def before_workers() -> Iterator[None]:
    """While the block lasts, this thread gets a core sooner than threads of normal priority, where that is allowed.

    For a server's loop, which every request waits for many times: on few cores its workers kept it waiting. Nothing it
    starts inherits it. A thread that has been given another priority keeps that. Measured: docs/results/
    encode-control-cpu.md.
    """
    changed = False
    with suppress(AttributeError, OSError):
        if os.sched_getscheduler(0) == os.SCHED_OTHER and os.getpriority(os.PRIO_PROCESS, 0) == 0:
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, BEFORE_WORKERS)
            changed = True
    try:
        yield
    finally:
        if changed:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
            with suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
