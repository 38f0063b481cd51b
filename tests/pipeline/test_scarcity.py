"""Buffers that cannot be had or are gone: room is made once, what is lost is made again, nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.errors import NoRoom, TransferError
from easerve.pipeline.media import MAX_RELOADS
from easerve.simulate.clock import run_virtually

from .doubles import World
from .test_cache import encoded

KEYS = [f"key#{k}" for k in range(5)]


def pixels(name: str) -> bool:
    return name.startswith("pixels")


def drop(world: World, kind: Callable[[str], bool]) -> None:
    """As when their owner has died."""
    world.memory.held -= set(world.memory.of(kind))


async def test_without_room_for_an_embedding_the_cache_gives_way_once() -> None:
    world = World(cache_bytes=100)
    await world.run(world.request("a", KEYS[:3]))
    world.memory.capacity = 3
    assert await world.run(world.request("b", KEYS[3:])) == [3, 4]
    assert sorted(encoded(world)) == sorted([*KEYS, *KEYS[3:]])
    assert world.pipeline.cache.store.evictions == 3
    world.memory.capacity = 0
    with pytest.raises(NoRoom):
        await world.run(world.request("c", KEYS[:1]))
    assert encoded(world).count(KEYS[0]) == 3, "it is tried again once, and not for ever"
    world.assert_clean()


async def test_what_requests_use_does_not_give_way() -> None:
    world = World(cache_bytes=100, delay=0.005)
    slow = asyncio.create_task(world.run(world.request("slow", KEYS)))
    while not world.generators[0].running:
        await asyncio.sleep(0.001)
    world.memory.capacity = len(KEYS)
    with pytest.raises(NoRoom):
        await world.run(world.request("new", ["key#9"]))
    assert await slow == [0, 1, 2, 3, 4]
    assert world.pipeline.cache.store.evictions == 0
    world.assert_clean()


async def test_without_room_for_kv_the_cache_gives_way_once() -> None:
    world = World(cache_bytes=100, apart=True)
    await world.run(world.request("a", KEYS))
    world.memory.capacity = 3
    assert await world.run(world.request("b", KEYS[:2])) == [0, 1]
    assert [job.produced for job in world.generators[0].started[1:]] == [(), (0,)]
    assert world.pipeline.cache.store.evictions == 3, "all but those of the request itself"
    with pytest.raises(NoRoom):
        await world.run(world.request("c", KEYS[:3]))
    world.assert_clean()


async def test_pixels_that_went_with_their_owner_are_laid_down_again() -> None:
    world = World(survives_owner=False, delay=0.002)
    request = world.request("a", KEYS)
    drop(world, pixels)
    assert await world.run(request) == [0, 1, 2, 3, 4]
    world.assert_clean()


async def test_pixels_that_cannot_be_had_in_time_are_laid_down_again_and_the_first_given_back() -> None:
    world = World(survives_owner=False)
    faults = [TransferError("the owner did not answer")]
    world.encoders[0].fault = lambda items: faults.pop() if faults else None
    assert await world.run(world.request("a", KEYS[:2])) == [0, 1]
    assert not faults
    world.assert_clean()


async def test_pixels_that_are_always_gone_end_typed() -> None:
    world = World(survives_owner=False)
    encode = world.encoders[0].encode
    reloads: list[int] = []

    async def too_late(items):  # type: ignore[no-untyped-def]
        reloads.append(len(items))
        drop(world, pixels)
        return await encode(items)

    world.encoders[0].encode = too_late  # type: ignore[method-assign]
    with pytest.raises(TransferError):
        await world.run(world.request("a", KEYS[:1]))
    assert len(reloads) == MAX_RELOADS + 1
    world.assert_clean()


async def test_who_joined_an_item_whose_pixels_are_gone_has_pixels_of_its_own() -> None:
    world = World(delay=0.005, cache_bytes=100)
    lost = world.request("leads", KEYS[:1])
    drop(world, pixels)
    leads = asyncio.create_task(world.run(lost, reloads=False))
    await asyncio.sleep(0.001)
    assert await world.run(world.request("joins", KEYS[:1]), reloads=False) == [0]
    with pytest.raises(TransferError):
        await leads
    world.assert_clean()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    apart=st.booleans(),
    losses=st.lists(st.floats(0.0, 0.03), max_size=4),
    cancels=st.lists(st.floats(0.0, 0.03), max_size=3),
)
def test_buffers_lost_at_any_moment_cost_no_answer(
    seed: int, apart: bool, losses: list[float], cancels: list[float]
) -> None:
    async def scenario() -> None:
        rng = Random(seed)
        world = World(
            encoders=2, generators=2, apart=apart, local=apart, delay=0.002, survives_owner=False, cache_bytes=3
        )
        loop = asyncio.get_running_loop()

        def lose_some() -> None:
            world.memory.held -= {name for name in world.memory.of(bool) if rng.random() < 0.5}

        requests = [world.request(str(i), rng.sample(KEYS, rng.randint(0, 5))) for i in range(10)]
        wanted = [[int(item.key[-1]) for item in request.media] or [0] for request in requests]
        tasks = [asyncio.create_task(world.run(request)) for request in requests]
        for when in losses:
            loop.call_later(when, lose_some)
        for when, task in zip(cancels, tasks, strict=False):
            loop.call_later(when, task.cancel)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(
            answer == right or (isinstance(answer, asyncio.CancelledError) and index < len(cancels))
            for index, (answer, right) in enumerate(zip(answers, wanted, strict=True))
        ), answers
        await asyncio.sleep(0.02)
        world.assert_clean()

    run_virtually(scenario())
