"""The knee: found where a server's capacity is, with few questions."""

from __future__ import annotations

import asyncio
from io import StringIO
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from easerve.bench.arrivals import Arrivals
from easerve.bench.knee import Search
from easerve.bench.objectives import Objectives
from easerve.bench.plan import Climb, Plan
from easerve.bench.run import run_bench
from easerve.bench.target import client
from easerve.bench.workloads import read_workload

from .fake import Fake, serving


@given(st.floats(0.2, 200), st.floats(0.5, 50), st.integers(1, 6))
def test_the_knee_is_bracketed_ever_closer(capacity: float, start: float, bisections: int) -> None:
    asked: list[float] = []

    async def measure(rate: float) -> float:
        asked.append(rate)
        return 1.0 if rate <= capacity else 0.3

    async def search() -> Search:
        search = Search(measure)
        await search.climb(start)
        await search.bisect(bisections)
        return search

    found = asyncio.run(search())
    assert found.knee is not None and found.first_bad is not None
    assert found.knee <= capacity < found.first_bad
    assert found.first_bad / found.knee <= 2 ** (0.5**bisections) * 1.001
    assert len(set(asked)) == len(asked)


async def test_given_rates_are_all_measured_and_nothing_is_made_up() -> None:
    search = Search(lambda rate: asyncio.sleep(0, 0.95 if rate < 3 else 0.5))
    await search.through([4, 1, 2])
    assert list(search.shares) == [1, 2, 4] and search.knee == 2
    bad = Search(lambda rate: asyncio.sleep(0, 0.0))
    await bad.through([1, 2])
    await bad.bisect(3)
    assert bad.knee is None and list(bad.shares) == [1, 2]


async def test_a_stopped_measurement_ends_the_search() -> None:
    search = Search(lambda rate: asyncio.sleep(0, None))
    await search.climb(1.0)
    await search.bisect(3)
    assert search.shares == {} and search.stopped


async def test_a_sweep_finds_the_capacity_of_a_simulated_queue() -> None:
    """One request at a time, 50 ms each: 20 a second, above which the queue grows as long as requests come."""

    async def measure(rate: float) -> float:
        free, good = 0.0, 0
        moments = Arrivals().moments(rate, Random(f"{rate}"), 2000, None)
        for moment in moments:
            free = max(free, moment) + 0.05
            good += free - moment <= 1.0
        return good / len(moments)

    search = Search(measure)
    await search.climb(0.7)
    await search.bisect(5)
    assert search.knee == pytest.approx(20, rel=0.07)


async def test_a_sweep_of_a_real_server_never_goes_beyond_its_capacity() -> None:
    """One request at a time, 50 ms each. At constant gaps, 16 requests and 0.2 s, one in ten is late from 27/s on; a
    machine that is busy with other things can only make that earlier."""
    plan = Plan(
        "text-only", read_workload("text-only", ["words=4", "output_tokens=2"]), Climb(bisections=1), 1,
        arrivals=Arrivals("constant"), requests=16, warmup=1, unloaded=3, objectives=Objectives(ttft=0.2),
    )  # fmt: skip
    fake = Fake(first=0.04, gap=0.01, servers=1)
    async with serving(fake), client(fake.url, None) as http:
        report = await run_bench(plan, http, None, Console(file=StringIO()), asyncio.Event())
    assert report.searched and report.knee is not None and 2 < report.knee < 27
    bad = [run for run in report.runs if run.all.good and run.all.good.share < 0.9]
    assert bad and min(run.rate or 0 for run in bad) > report.knee
    assert [run.rate for run in report.runs] == sorted(run.rate or 0 for run in report.runs)
