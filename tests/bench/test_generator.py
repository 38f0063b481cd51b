"""The load generator comes before what it measures: for as long as load lasts, and alone."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from easerve.bench.generator import Generator, Observed
from easerve.bench.lag import LoopLag, NoLag
from easerve.bench.record import Record
from easerve.bench.wire import HttpWire
from easerve.priority import going_first

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_RESET_ON_FORK"), reason="needs Linux's schedulers")

PRINTED = [sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"]


@dataclass
class Noting:
    """A wire that notes under which scheduler its thread, and a process started by it, run while it sends."""

    lag: type[LoopLag]
    senders: set[int] = field(default_factory=set)
    children: set[int] = field(default_factory=set)

    async def send(self, prepared: object, index: int, scheduled: float, now: Callable[[], float]) -> Record:
        self.senders.add(scheduler())
        process = await asyncio.create_subprocess_exec(*PRINTED, stdout=subprocess.PIPE)
        self.children.add(int((await process.communicate())[0]))
        if prepared == "broken":
            raise RuntimeError("a fault of the wire")
        return Record(index, "text", 0, scheduled, now(), ended=now())


def scheduler() -> int:
    return os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK


def may_go_first() -> bool:
    with going_first() as first:
        return first


async def load(wire: Noting, kind: str) -> Observed:
    generator = Generator(wire)  # type: ignore[arg-type]
    if kind == "open":
        return await generator.open_loop(["x", "x"], [0.0, 0.01])
    return await generator.closed_loop(iter(["x", "x"]), 1, None)


@pytest.mark.parametrize("kind", ["open", "closed"])
async def test_the_generator_goes_first_while_load_lasts_and_nobody_it_starts_does(kind: str) -> None:
    before, allowed = os.sched_getscheduler(0), may_go_first()
    assert os.sched_getscheduler(0) == before
    wire = Noting(HttpWire.lag)
    observed = await load(wire, kind)
    assert observed.goes_first == allowed
    assert wire.senders == {os.SCHED_RR if allowed else before}
    assert os.SCHED_RR not in wire.children
    assert os.sched_getscheduler(0) == before


async def test_the_place_is_given_back_when_load_breaks_off() -> None:
    before = os.sched_getscheduler(0)
    with pytest.raises(RuntimeError, match="fault"):
        await Generator(Noting(LoopLag)).open_loop(["broken"], [0.0])  # type: ignore[arg-type]
    assert os.sched_getscheduler(0) == before


async def test_load_in_virtual_time_keeps_its_place() -> None:
    wire, before = Noting(NoLag), scheduler()
    assert (await load(wire, "open")).goes_first
    assert wire.senders == {before}
