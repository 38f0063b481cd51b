"""A request that is cancelled is free of everything in that very moment, whatever stage it is at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from easerve.simulate.clock import run_virtually

from .doubles import World


@dataclass(frozen=True)
class Stage:
    """A moment in a request's life: how it is known, and what has to be done so that the request comes there."""

    reached: Callable[[World], bool]
    prepare: Callable[[World], object] = lambda world: None


def kv(world: World) -> list[str]:
    return world.memory.of(lambda name: name.startswith("kv:"))


def encoding(world: World) -> bool:
    return any(load.pending_tokens for load in world.pipeline.encode_pool.loads().values())


def prefill_dies(world: World) -> None:
    asyncio.get_running_loop().call_later(1.5, world.generators[0].die)


def buffers_lost(world: World) -> None:
    """Between encode and prefill."""
    asyncio.get_running_loop().call_later(1.5, world.memory.held.clear)
    world.generators[0].delay = 0.1
    take_out_prefill(world)
    asyncio.get_running_loop().call_later(2.0, world.pipeline.pools.prefill.add_worker, world.generators[0])


def take_out_encode(world: World) -> None:
    world.pipeline.encode_pool.remove_worker("encode-0", returns=True)


def take_out_prefill(world: World) -> None:
    world.pipeline.pools.prefill.remove_worker("generate-0", returns=True)


def take_out_decode(world: World) -> None:
    world.pipeline.pools.decode.remove_worker("decode-0", returns=True)


STAGES = {
    "queued for encode": Stage(lambda world: world.pipeline.encode_pool.queue_length == 3, take_out_encode),
    "encoding": Stage(encoding),
    "pixels being had again": Stage(lambda world: world.reloading == 3, lambda world: world.memory.held.clear()),
    "waiting for a prefill worker": Stage(lambda world: world.pipeline.cache.store.pinned == 3, take_out_prefill),
    "prefill": Stage(lambda world: bool(world.generators[0].running)),
    "prefill, done again": Stage(lambda world: len(world.generators[0].started) == 2, prefill_dies),
    "embeddings, made again": Stage(lambda world: bool(world.generators[0].started) and encoding(world), buffers_lost),
    "waiting for a decode worker": Stage(lambda world: bool(kv(world)), take_out_decode),
    "hand-over": Stage(lambda world: bool(kv(world)) and bool(world.decoders[0].running)),
    "decode": Stage(lambda world: bool(world.decoders[0].running) and not kv(world)),
}


@pytest.mark.parametrize("name", STAGES)
def test_cancelled_at_a_stage_everything_is_free_at_once(name: str) -> None:
    async def scenario() -> None:
        stage, world = STAGES[name], World(apart=True, delay=1.0)
        request = world.request("a", ["key#1", "key#2", "key#3"])
        stage.prepare(world)
        task = asyncio.create_task(world.run(request))
        async with asyncio.timeout(20):
            while not stage.reached(world):
                await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        world.assert_clean()
        await asyncio.sleep(10)  # what workers answer later is for nobody, and is given back
        world.assert_clean()

    run_virtually(scenario())
