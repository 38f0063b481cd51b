"""Places on the cores, and that nobody inherits them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

GOING_FIRST = """
import os, subprocess, sys, threading
from easerve.priority import go_first
allowed, here, thread = go_first(), os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, []
worker = threading.Thread(target=lambda: thread.append(os.sched_getscheduler(0)))
worker.start(); worker.join()
child = subprocess.run([sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"], capture_output=True)
print(int(allowed), int(here == os.SCHED_RR), thread[0], int(child.stdout))
"""


BEFORE_WORKERS = """
import os, subprocess, sys, threading
from easerve.priority import BEFORE_WORKERS, before_workers
os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
nice = lambda: os.getpriority(os.PRIO_PROCESS, 0)
printed, before, usual = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))", os.sched_getscheduler(0), nice()
with before_workers():
    here, thread = nice(), []
    worker = threading.Thread(target=lambda: thread.append(nice()))
    worker.start(); worker.join()
    child = subprocess.run([sys.executable, "-c", printed], capture_output=True)
after = nice(), os.sched_getscheduler(0)
os.nice(3)
with before_workers():
    kept = nice()
print(int(here == BEFORE_WORKERS), here, thread[0], int(child.stdout), after[0], int(after[1] == before), kept, usual)
"""

LINUX = pytest.mark.skipif(not hasattr(os, "SCHED_RESET_ON_FORK"), reason="needs Linux's schedulers")


@LINUX
def test_the_load_generator_goes_first_and_what_it_starts_does_not() -> None:
    run = subprocess.run([sys.executable, "-c", GOING_FIRST], capture_output=True, check=True)
    allowed, first, thread, child = map(int, run.stdout.split())
    assert first == allowed
    assert thread == child == os.SCHED_OTHER


@LINUX
def test_a_server_comes_before_its_workers_and_leaves_no_trace() -> None:
    run = subprocess.run([sys.executable, "-c", BEFORE_WORKERS], capture_output=True, check=True)
    raised, here, thread, child, after, unchanged, kept, usual = map(int, run.stdout.split())
    assert raised or here == usual  # where it is not allowed, or the process has a place of its own
    assert thread == child == after == usual
    assert unchanged
    assert kept == usual + 3
