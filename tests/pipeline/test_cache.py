"""The embedding cache in the pipeline: encoded once, joined in flight, never mixed up, never in the way."""

from __future__ import annotations

import asyncio

import pytest

from easerve.errors import EAServeError

from .doubles import World


def encoded(world: World) -> list[str]:
    return [key for encoder in world.encoders for batch in encoder.batches for key in batch]


@pytest.mark.parametrize("cache_bytes", [0, 1000])
async def test_an_item_in_flight_is_joined(cache_bytes: int) -> None:
    world = World(encoders=2, delay=0.01, cache_bytes=cache_bytes)
    requests = [world.request(str(i), ["key#1", "key#1", "key#2"]) for i in range(10)]
    assert await asyncio.gather(*(world.run(request) for request in requests)) == [[1, 1, 2]] * 10
    assert sorted(encoded(world)) == ["key#1", "key#2"]
    assert world.pipeline.cache.joins == 28
    world.assert_clean()


async def test_a_repeated_item_is_encoded_once_while_the_cache_holds_it() -> None:
    world = World(cache_bytes=2)  # an embedding is one byte
    for keys in (["key#1", "key#2"], ["key#2", "key#1"], ["key#3"], ["key#1"]):
        await world.run(world.request("r", keys))
    assert encoded(world) == ["key#1", "key#2", "key#3"]
    await world.run(world.request("r", ["key#2"]))  # the one evicted for key#3
    assert encoded(world) == ["key#1", "key#2", "key#3", "key#2"]
    world.assert_clean()


async def test_more_items_than_the_cache_holds_still_serve() -> None:
    world = World(encoders=2, delay=0.001, cache_bytes=1)
    requests = [world.request(str(i), [f"key#{k}" for k in range(i, i + 6)]) for i in range(20)]
    answers = await asyncio.gather(*(world.run(request) for request in requests))
    assert answers == [list(range(i, i + 6)) for i in range(20)]
    world.assert_clean()


async def test_when_the_first_asker_leaves_another_takes_over() -> None:
    world = World(delay=0.01, cache_bytes=100)
    first = asyncio.create_task(world.run(world.request("first", ["key#1"])))
    await asyncio.sleep(0.003)
    second = asyncio.create_task(world.run(world.request("second", ["key#1"])))
    await asyncio.sleep(0.003)
    first.cancel()
    assert await second == [1]
    world.assert_clean()


async def test_an_error_reaches_all_who_joined_and_is_not_kept() -> None:
    world = World(delay=0.005, cache_bytes=100)
    requests = [world.request(str(i), ["bad#1"]) for i in range(3)]
    results = await asyncio.gather(*(world.run(request) for request in requests), return_exceptions=True)
    assert all(isinstance(result, EAServeError) for result in results)
    assert encoded(world) == ["bad#1"]
    with pytest.raises(EAServeError):
        await world.run(world.request("again", ["bad#1"]))
    assert encoded(world) == ["bad#1", "bad#1"]
    world.assert_clean()


async def test_an_embedding_that_went_with_its_owner_is_made_again() -> None:
    world = World(encoders=2, cache_bytes=100, survives_owner=False)
    assert await world.run(world.request("a", ["key#1", "key#2"])) == [1, 2]
    world.memory.held = {name for name in world.memory.held if not name.startswith("key#1")}
    assert await world.run(world.request("b", ["key#1", "key#2"], n=2)) in ([1, 1, 2, 2], [1, 2, 1, 2])
    assert sorted(encoded(world)) == ["key#1", "key#1", "key#2", "key#2"]
    world.assert_clean()


@pytest.mark.parametrize("survives_owner", [True, False])
async def test_what_a_lost_worker_made_is_kept_only_if_it_outlives_it(survives_owner: bool) -> None:
    world = World(cache_bytes=100, survives_owner=survives_owner)
    await world.run(world.request("a", ["key#1", "key#2"]))
    world.pipeline.cache.lose("another")
    assert len(world.memory.held) == 2
    world.pipeline.cache.lose("encode-0")
    assert len(world.memory.held) == 2 * survives_owner
    assert await world.run(world.request("b", ["key#1", "key#2"])) == [1, 2]
    assert len(encoded(world)) == (2 if survives_owner else 4)
    world.assert_clean()
