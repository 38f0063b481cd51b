"""Who gets no core is told from who is stopped, asleep or spinning, and is given more time, not for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from easerve.workers.pulse import STARVED_PATIENCE, CoreWaits, Pulse

LONGEST = 10  # looks
PID = 7
Threads = dict[int, tuple[str, int, int, int]]  # state, seconds run and waited, turns


def write(proc: Path, threads: Threads) -> None:
    for thread, (state, ran, waited, turns) in threads.items():
        folder = proc / str(PID) / "task" / str(thread)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(f"{thread} (a (strange) name) {state} 1 2 3")
        (folder / "schedstat").write_text(f"{ran * 10**9} {waited * 10**9} {turns}\n")


@pytest.mark.parametrize(
    ("before", "after", "starved"),
    [
        pytest.param({7: ("T", 5, 5, 9)}, {7: ("T", 5, 5, 9)}, False, id="stopped"),
        pytest.param(
            {7: ("S", 5, 5, 9), 8: ("D", 1, 1, 1)}, {7: ("S", 5, 5, 9), 8: ("D", 1, 1, 1)}, False, id="locked"
        ),
        pytest.param({7: ("S", 5, 5, 9)}, {7: ("R", 5, 5, 9)}, False, id="woken this moment"),
        pytest.param({7: ("R", 5, 5, 9)}, {7: ("R", 8, 6, 50)}, False, id="spinning"),
        pytest.param({7: ("R", 5, 5, 9)}, {7: ("R", 5, 5, 9)}, True, id="waiting all the time"),
        pytest.param({7: ("R", 5, 5, 9)}, {7: ("S", 5, 8, 10)}, True, id="waited, then had a turn"),
        pytest.param({7: ("S", 5, 5, 9), 8: ("R", 1, 1, 1)}, {7: ("S", 5, 5, 9), 8: ("R", 1, 4, 2)}, True, id="thread"),
        pytest.param({7: ("S", 5, 5, 9)}, {7: ("S", 5, 5, 9), 9: ("R", 0, 60, 1)}, False, id="a new thread"),
        pytest.param({}, {}, False, id="another system"),
    ],
)
def test_waiting_for_a_core_is_told_from_having_one_and_needing_none(
    before: Threads, after: Threads, starved: bool, tmp_path: Path
) -> None:
    now = 100.0
    waits = CoreWaits(tmp_path, lambda: now)
    write(tmp_path, before)
    assert not waits.starved(PID), "there is nothing to compare with"
    now += 4
    write(tmp_path, after)
    assert waits.starved(PID) is starved


@pytest.mark.parametrize(("starved", "looks"), [(False, LONGEST), (True, 1 + STARVED_PATIENCE * (LONGEST - 1))])
def test_who_gets_no_core_is_given_more_time_not_for_ever(starved: bool, looks: int) -> None:
    pulse = Pulse(lambda _: starved)
    for _ in range(2):
        assert [pulse.look(PID) <= LONGEST for _ in range(looks)] == [True] * looks
        assert pulse.look(PID) > LONGEST
        pulse.beat()


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell")
def test_a_real_process_starved_and_then_stopped() -> None:
    waits = CoreWaits()
    with spinning() as starved:
        with spinning() as rival:
            core = {min(os.sched_getaffinity(0))}
            os.sched_setaffinity(rival, core)
            os.sched_setaffinity(starved, core)
            os.sched_setscheduler(starved, os.SCHED_IDLE, os.sched_param(0))  # gets what the rival leaves
            soon(lambda: waits.starved(starved))
        os.kill(starved, signal.SIGSTOP)
        soon(lambda: Path(f"/proc/{starved}/stat").read_text().split()[2] == "T")
        waits.starved(starved)
        time.sleep(0.1)
        assert not waits.starved(starved)


@contextmanager
def spinning() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def soon(condition: Callable[[], bool]) -> None:
    for _ in range(300):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it never came to this")
