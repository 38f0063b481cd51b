"""The load generator's own place on the cores."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

GOING_FIRST = """
import os, subprocess, sys, threading
from easerve.bench.priority import go_first
allowed, here, thread = go_first(), os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, []
worker = threading.Thread(target=lambda: thread.append(os.sched_getscheduler(0)))
worker.start(); worker.join()
child = subprocess.run([sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"], capture_output=True)
print(int(allowed), int(here == os.SCHED_RR), thread[0], int(child.stdout))
"""


@pytest.mark.skipif(not hasattr(os, "SCHED_RESET_ON_FORK"), reason="needs Linux's schedulers")
def test_the_load_generator_goes_first_and_what_it_starts_does_not() -> None:
    run = subprocess.run([sys.executable, "-c", GOING_FIRST], capture_output=True, check=True)
    allowed, first, thread, child = map(int, run.stdout.split())
    assert first == allowed
    assert thread == child == os.SCHED_OTHER
