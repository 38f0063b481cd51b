"""benchmarks/partition.py before it has started anything."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from easerve.config import problems, read_deployment

from .conftest import two_cores
from .scripts import BENCHMARKS, partition

GOING_FIRST = """
import os, subprocess, sys, threading, partition
allowed, here, thread = partition._goes_first(), os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK, []
worker = threading.Thread(target=lambda: thread.append(os.sched_getscheduler(0)))
worker.start(); worker.join()
child = subprocess.run([sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"], capture_output=True)
print(int(allowed), int(here == os.SCHED_RR), thread[0], int(child.stdout))
"""


@pytest.mark.skipif(not hasattr(os, "SCHED_RESET_ON_FORK"), reason="needs Linux's schedulers")
def test_the_load_generator_goes_first_and_what_it_starts_does_not() -> None:
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    run = subprocess.run([sys.executable, "-c", GOING_FIRST], capture_output=True, env=environment, check=True)
    allowed, first, thread, child = map(int, run.stdout.split())
    assert first == allowed
    assert thread == child == os.SCHED_OTHER


@two_cores
def test_what_is_compared_differs_in_the_partition_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["partition.py", "--slack", "0.2"])
    table = tmp_path / "shares.json"
    contenders = [partition._contender(one, tmp_path, table, partition._arguments()) for one in partition.NAMES]
    deployments = [read_deployment(tmp_path / f"{one}.yaml") for one in partition.NAMES]
    assert [one.name for one in contenders] == [one.partition for one in deployments] == ["none", "static", "dynamic"]
    assert [problems(one) for one in deployments] == [[], [], []]
    assert {one.model_copy(update={"partition": "none"}) for one in deployments} == {deployments[0]}
    assert (deployments[2].partition_table, deployments[2].partition_slack) == (table, 0.2)
