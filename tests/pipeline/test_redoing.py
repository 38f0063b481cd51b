"""Workers that die under their work: what was accepted is done, no token missing or doubled, nothing left behind."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.errors import Unavailable, WorkerLost

from .doubles import FakeGenerator, World

KEYS = [f"key#{k}" for k in range(5)]


async def lose(world: World, worker: FakeGenerator, *, returns: bool) -> None:
    """As the supervisor does it: out of the pools first, then everything on it fails."""
    pools = world.pipeline.pools
    for pool in (pools.prefill, pools.local, pools.decode):
        pool.remove_worker(worker.name, returns=returns)
    worker.die()
    if returns:
        await asyncio.sleep(0.004)
        for pool, members in ((pools.prefill, world.generators), (pools.decode, world.decoders)):
            if worker in members:
                pool.add_worker(worker)


@pytest.mark.parametrize("apart", [False, True])
async def test_prefill_and_decode_apart_or_not_answer_alike(apart: bool) -> None:
    world = World(encoders=2, generators=2, apart=apart, delay=0.001)
    requests = [world.request(str(i), KEYS[i % 3 :]) for i in range(20)]
    assert await asyncio.gather(*(world.run(request) for request in requests)) == [
        list(range(i % 3, 5)) for i in range(20)
    ]
    assert all(decoder.started for decoder in world.decoders)
    world.assert_clean()


async def test_media_requests_are_shared_between_local_and_remote_prefill_as_told() -> None:
    world = World(apart=True, local=True, remote_ratio=0.25)
    for index in range(40):
        await world.run(world.request(str(index), KEYS))
        await world.run(world.request(f"text {index}", []))
    assert len(world.locals[0].started) == 30
    assert sum(bool(job.media) for job in world.generators[0].started) == 10
    assert sum(not job.media for job in world.generators[0].started) == 40, "text went to a local prefill worker"
    world.assert_clean()


async def test_local_prefill_runs_where_most_was_encoded() -> None:
    world = World(encoders=3, apart=True, local=True, remote_ratio=0.0, delay=0.001, bound=1)
    await asyncio.gather(*(world.run(world.request(str(i), [f"key#{i}"])) for i in range(9)))
    for encoder, local in zip(world.encoders, world.locals, strict=True):
        made = {key for batch in encoder.batches for key in batch}
        assert {item.key for job in local.started for item, _ in job.media} == made
    world.assert_clean()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    apart=st.booleans(),
    deaths=st.lists(st.floats(0.0, 0.03), max_size=4),
    survives_owner=st.booleans(),
)
def test_deaths_at_any_moment_lose_and_double_nothing(
    seed: int, apart: bool, deaths: list[float], survives_owner: bool
) -> None:
    async def scenario() -> None:
        rng = Random(seed)
        world = World(
            encoders=2,
            generators=2,
            apart=apart,
            local=apart,
            delay=0.002,
            survives_owner=survives_owner,
            cache_bytes=3,
        )
        loop = asyncio.get_running_loop()
        killers = []

        def kill() -> None:
            victim = rng.choice([*world.generators, *world.decoders])
            killers.append(loop.create_task(lose(world, victim, returns=True)))

        for when in deaths:
            loop.call_later(when, kill)
        requests = [world.request(str(i), rng.sample(KEYS, rng.randint(0, 5))) for i in range(10)]
        wanted = [[int(item.key[-1]) for item in request.media] or [0] for request in requests]
        assert await asyncio.gather(*(world.run(request) for request in requests)) == wanted
        await asyncio.gather(*killers)
        await asyncio.sleep(0.01)
        world.assert_clean()

    asyncio.run(scenario())


async def test_with_nobody_to_come_back_requests_end_typed() -> None:
    world = World(delay=0.01)
    running = asyncio.create_task(world.run(world.request("a", KEYS)))
    await asyncio.sleep(0.03)
    await lose(world, world.generators[0], returns=False)
    with pytest.raises(Unavailable):
        await running
    with pytest.raises(Unavailable):
        await world.run(world.request("b", []))
    world.assert_clean()


async def test_without_decode_workers_no_token_is_given_out_that_none_could_follow() -> None:
    world = World(apart=True, local=True)
    world.pipeline.pools.decode.remove_worker("decode-0", returns=False)
    for keys in ([], KEYS):
        with pytest.raises(Unavailable, match="no decode worker is alive"):
            await world.run(world.request("a", keys))
    assert not any(worker.started for worker in world.everyone)
    world.assert_clean()


async def test_a_sequence_that_kills_every_worker_is_given_up() -> None:
    world = World(delay=0.001)
    generator = world.generators[0]
    started = generator.start

    def deadly(job, sink) -> None:  # type: ignore[no-untyped-def]
        started(job, sink)
        asyncio.get_running_loop().call_soon(generator.die)

    generator.start = deadly  # type: ignore[method-assign]
    with pytest.raises(WorkerLost):
        await world.run(world.request("a", KEYS))
    world.assert_clean()


async def test_media_wait_for_an_encoder_on_its_way_back() -> None:
    world = World(delay=0.002)
    encoder = world.encoders[0]
    world.pipeline.encode_pool.remove_worker(encoder.name, returns=True)
    waiting = asyncio.create_task(world.run(world.request("a", KEYS)))
    await asyncio.sleep(0.02)
    assert not waiting.done()
    assert await world.run(world.request("text", [])) == [0]
    world.pipeline.encode_pool.add_worker(encoder)
    assert await waiting == [0, 1, 2, 3, 4]
    world.assert_clean()


async def test_what_is_cached_waits_neither_for_an_encoder_nor_for_prefill_beside_one() -> None:
    world = World(apart=True, local=True, remote_ratio=0.0, cache_bytes=100)
    pools, encode = world.pipeline.pools, world.pipeline.encode_pool
    await world.run(world.request("seen", KEYS[:2]))
    encode.remove_worker("encode-0", returns=True)
    pools.local.remove_worker("encode-0", returns=True)
    assert await world.run(world.request("again", KEYS[:2])) == [0, 1]
    unseen = asyncio.create_task(world.run(world.request("unseen", KEYS)))
    await asyncio.sleep(0.02)
    assert not unseen.done()
    encode.remove_worker("encode-0", returns=False)
    pools.local.remove_worker("encode-0", returns=False)
    with pytest.raises(Unavailable, match="no encode worker is alive"):
        await unseen
    assert await world.run(world.request("and again", KEYS[:2])) == [0, 1]
    assert len(world.locals[0].started) == 1
    world.assert_clean()


async def test_who_waits_for_a_prefill_worker_that_is_given_up_goes_to_the_other_pool() -> None:
    world = World(apart=True, local=True, remote_ratio=0.0, cache_bytes=100)
    pools, (generator,), (local,) = world.pipeline.pools, world.generators, world.locals
    await world.run(world.request("seen", KEYS))
    for pool, worker in ((pools.prefill, generator), (pools.local, local)):
        pool.remove_worker(worker.name, returns=True)
    waiting = asyncio.create_task(world.run(world.request("a", KEYS)))
    await asyncio.sleep(0.02)
    pools.local.remove_worker(local.name, returns=False)
    await asyncio.sleep(0.02)
    assert not waiting.done()
    pools.prefill.add_worker(generator)
    assert await waiting == [0, 1, 2, 3, 4]
    world.assert_clean()


async def test_kv_that_is_gone_is_made_again() -> None:
    world = World(apart=True, delay=0.002)
    decoder = world.decoders[0]
    world.pipeline.pools.decode.remove_worker(decoder.name, returns=True)
    running = asyncio.create_task(world.run(world.request("a", KEYS)))
    while not any(name.startswith("kv:") for name in world.memory.held):
        await asyncio.sleep(0.001)
    world.memory.held = {name for name in world.memory.held if not name.startswith("kv:")}
    world.pipeline.pools.decode.add_worker(decoder)
    assert await running == [0, 1, 2, 3, 4]
    assert [job.produced for job in world.generators[0].started] == [(), (0,)]
    world.assert_clean()
