"""What a server adds to its engines, and what cores add to each other: worked out by hand, and measured once."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.builtin import model_path
from easerve.costs.base import ChunkSize, ItemSize
from easerve.costs.profile_file import Profile, ServerTime, Slowdown, read_profile, write_profile
from easerve.errors import StartupError
from easerve.profile import neighbours
from easerve.profile.run import merged
from easerve.profile.works import KINDS
from easerve.simulate.clock import run_virtually
from easerve.simulate.device import Device, Host
from easerve.simulate.front_end import FrontEnd
from easerve.simulate.machines import Machines
from easerve.simulate.measuring import measure_server
from easerve.simulate.pace import Course
from easerve.simulate.run import Simulation
from easerve.workers.spec import parse_device
from tests.costs.test_profile import made_up
from tests.simulate.worlds import LinearCosts, plan, simulation, world

ADDED = ServerTime(request=0.003, picture=0.002, pixel=1e-8, token=0.0005, step=0.0002)


def test_a_lone_request_also_takes_what_the_server_adds(monkeypatch: pytest.MonkeyPatch) -> None:
    """On cores of their own; the front end passes a token on while the engine is at the next."""
    for module in ("config.topology", "simulate.server"):
        monkeypatch.setattr(f"easerve.{module}.usable_cores", lambda: list(range(3)))
    chosen = simulation(topology="e-pd", device="cpu").deployment
    bare, full = (
        Simulation(chosen, world(LinearCosts(), **added)).bench(plan(rate=0.01, requests=2)).runs[0].observed.records
        for added in ({}, {"added": ADDED})
    )
    for before, after in zip(bare, full, strict=True):
        taken_in = ADDED.request + 2 * (ADDED.picture + ADDED.pixel * 224 * 224)
        assert after.ttft - before.ttft == pytest.approx(taken_in + ADDED.step + ADDED.token)
        assert after.tpot is not None and before.tpot is not None
        assert ADDED.step <= after.tpot - before.tpot <= ADDED.step + ADDED.token + 1e-9


def test_neighbours_slow_each_other_down_for_as_long_as_both_are_at_work() -> None:
    """A takes 3 s alone. B is there from 1 s on: A goes at half speed until B, which does not mind, is done at 3 s."""

    async def main() -> list[float]:
        host, loop = Host({("decode", "encode"): 2.0}), asyncio.get_running_loop()
        one, other = Device(host), Device(host)

        async def work(device: Device, begins: float, seconds: float, kind: str) -> float:
            await asyncio.sleep(begins)
            await device.work(lambda share, beside: seconds, kind=kind)
            return loop.time()

        return await asyncio.gather(work(one, 0.0, 3.0, "decode"), work(other, 1.0, 2.0, "encode"))

    assert run_virtually(main()) == [4.0, 3.0]


@given(
    works=st.lists(st.tuples(st.floats(0, 2), st.floats(0.01, 1)), min_size=1, max_size=4),
    tokens=st.lists(st.floats(0, 2), max_size=8),
)
@settings(max_examples=50, deadline=None, derandomize=True)
def test_what_the_front_end_takes_of_a_core_its_workers_lack(
    works: list[tuple[float, float]], tokens: list[float]
) -> None:
    """On one core everything is over when all of it has been done, front end included, however it interleaves."""

    async def main() -> float:
        core = Device()
        front_end = FrontEnd(ServerTime(request=0.2, token=0.1), [core])

        async def work(begins: float, seconds: float) -> None:
            await asyncio.sleep(begins)
            await core.work(lambda share, beside: seconds * (share + beside) / share)

        async def token(moment: float) -> None:
            await asyncio.sleep(moment)
            await front_end.pass_on()

        await asyncio.gather(*(work(*one) for one in works), *map(token, tokens), front_end.take_in([]))
        return asyncio.get_running_loop().time()

    free = 0.0
    for begins, seconds in sorted([*works, *((moment, 0.1) for moment in tokens), (0.0, 0.2)]):
        free = max(free, begins) + seconds
    assert run_virtually(main()) == pytest.approx(free)


@pytest.mark.parametrize(
    ("busy", "where"),
    [((0,), [1, 1, 1]), ((), [0, 0, 0]), ((0, 1), [0, 0, 0]), ((0, 0, 1), [1, 1, 1])],
    ids=["the idle one", "all idle", "all busy", "the less busy"],
)
def test_it_goes_where_there_is_least_to_do_and_of_equals_stays_where_it_was(
    busy: tuple[int, ...], where: list[int]
) -> None:
    """The last of its three works comes when all cores are idle again."""

    async def main() -> list[int]:
        cores = [Device(), Device()]
        works = [asyncio.create_task(cores[core].work(lambda share, beside: 9.0, kind="encode")) for core in busy]
        front_end = FrontEnd(ServerTime(request=1.0, token=1.0), cores)
        seen = []
        for passing in (front_end.take_in([]), front_end.pass_on(), front_end.pass_on()):
            if len(seen) == 2:
                await asyncio.gather(*works)
            await asyncio.sleep(0)
            at_work = asyncio.create_task(passing)
            await asyncio.sleep(0.5)
            seen += [place for place, core in enumerate(cores) if "" in core.kinds]
            await at_work
        return seen

    assert run_virtually(main()) == where


@given(factor=st.floats(0.2, 5), moments=st.lists(st.floats(0, 9), min_size=1, max_size=5, unique=True))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_work_takes_as_long_as_the_pace_says_at_the_moment_it_begins(factor: float, moments: list[float]) -> None:
    course = Course({"encode": [(0.0, 1.0), (4.0, factor)], "decode": [(0.0, 3.0)]})

    async def main() -> dict[float, float]:
        loop, found = asyncio.get_running_loop(), dict[float, float]()

        async def work(device: Device, begins: float) -> None:
            await asyncio.sleep(begins)
            await device.work(lambda share, beside: 0.5, kind="encode")
            found[begins] = loop.time() - begins

        host = Host(pace=course)
        await asyncio.gather(*(work(Device(host), moment) for moment in moments))
        return found

    wanted = {moment: 0.5 * (factor if moment >= 4 else 1.0) for moment in moments}
    assert run_virtually(main()) == pytest.approx(wanted)
    assert course("", 5.0) == pytest.approx((factor + 3.0) / 2) and course("decode", -1.0) == 3.0


def measured() -> Profile:
    slowdown = (Slowdown("decode", "encode", 1.25),)
    return msgspec.structs.replace(made_up(), server=ADDED, slowdown=slowdown)


def test_a_world_has_what_its_profile_has(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    write_profile(measured(), path)
    assert read_profile(path) == measured() == merged(measured(), made_up())
    found = Machines("cpu", profile=path).world("builtin")
    assert found.added == ADDED and found.slowdowns == {("decode", "encode"): 1.25}
    write_profile(made_up(), path)
    assert not Machines("cpu", profile=path).world("builtin").slowdowns


def test_two_workers_on_one_core_have_half_of_it_each(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    write_profile(made_up(), path)
    found = Machines("cpu", profile=path).world("builtin")
    costs = found.costs(simulation(topology="e-p-d", device="cpu").plans()[0])
    decode, prefill, encode = [ChunkSize(1, 50)] * 3, [ChunkSize(80, 0)], [ItemSize(64, 16)]
    for chunks in (decode, prefill):
        assert costs.step(chunks, 1.0, 1.0) == pytest.approx(2 * costs.step(chunks))
    assert costs.encode(encode, 1.0, 1.0) == pytest.approx(2 * costs.encode(encode))


async def test_what_a_server_adds_can_be_measured() -> None:
    found = await measure_server(model_path(), requests=4)
    assert found.request > 0 and found.picture + found.pixel > 0 and found.token > 0 and found.step >= 0


@pytest.fixture
def own_cores() -> Iterator[None]:
    """Profiling binds the process that it runs in."""
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("own_cores")
def test_each_stage_is_measured_beside_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """The neighbour has the same core here, so that one is enough, and there is something to be seen."""
    for name, value in (("ROUNDS", 1), ("REPEATS", 3), ("SETTLING", 0.1)):
        monkeypatch.setattr(neighbours, name, value)
    core, own = parse_device("cpu:0"), os.sched_getaffinity(0)
    found = neighbours.measure_slowdowns(model_path(), core, core)
    assert [(one.stage, one.beside) for one in found] == list(itertools.product(KINDS, repeat=2))
    assert min(one.factor for one in found) >= 1.0 < max(one.factor for one in found)
    assert neighbours.other_core(parse_device("cuda:0")) is None
    assert os.sched_getaffinity(0) == own, "else the profile that comes next could not be bound to its device"


def test_a_neighbour_that_dies_is_told_of(tmp_path: Path) -> None:
    core = parse_device("cpu:0")
    with pytest.raises(StartupError, match="has died"):
        neighbours.measure_slowdowns(tmp_path, core, core)
