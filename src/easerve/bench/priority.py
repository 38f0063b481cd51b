"""The load generator's place on the cores that it shares with the servers it measures."""

from __future__ import annotations

import os


def go_first() -> bool:
    """Let this thread have a core as soon as it wakes; False where that is not allowed. Nothing it starts inherits it.

    On few cores a generator queues behind the workers that it measures, some milliseconds at each wake-up. That is as
    long as a decode step takes, so tokens would be noted late and in bunches. It computes for some percent of the time.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except (AttributeError, OSError):
        return False
    return True
