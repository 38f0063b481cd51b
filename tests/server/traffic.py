"""Requests about the built-in model's scenes, and what a server holds when all of them are done."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import httpx

from easerve.builtin import scenes
from easerve.client import ask
from easerve.server import Server

from .conftest import uri


def mixed(amount: int, seed: int) -> list[scenes.Example]:
    """One and two pictures and text, many pictures coming again, also twice in one request."""
    rng = Random(seed)
    distinct = max(6, amount // 3)
    pool = (
        scenes.held_out("one", distinct, seed)
        + scenes.held_out("two", distinct, seed)
        + scenes.held_out("sum", distinct, seed)
    )
    pool += [_twice(example) for example in pool[: distinct // 2]]
    return [rng.choice(pool) for _ in range(amount)]


def _twice(example: scenes.Example) -> scenes.Example:
    """The same picture as first and second."""
    question = example.question.replace(" ?", " in the second picture ?") if "?" in example.question else None
    return scenes.Example(example.pictures * 2, question or "describe the first picture .", example.answer, "twice")


async def answers(
    server: Server, questions: Sequence[scenes.Example], concurrency: int, *, patience: float = 120.0
) -> list[str]:
    """Texts in order. Raises the server's error if any answer is one."""
    places = asyncio.Semaphore(concurrency)
    async with httpx.AsyncClient(base_url=server.url, timeout=patience) as http:

        async def one(example: scenes.Example) -> str:
            async with places:
                answer = await ask(http, server.model, example.question, [uri(p) for p in example.pictures], 64)
            return answer.text

        return await asyncio.gather(*(one(example) for example in questions))


async def assert_nothing_is_held(server: Server) -> None:
    """No place, queue entry, pin, buffer or KV block; what the cache keeps is given back first."""
    pipeline = server.pipeline
    assert pipeline.admission.in_flight == 0
    assert pipeline.encode_pool.queue_length == 0
    assert pipeline.cache.store.pinned == 0
    pipeline.cache.make_room()
    for pool in (pipeline.encode_pool, pipeline.pools.prefill, pipeline.pools.local, pipeline.pools.decode):
        assert {load.pending_tokens for load in pool.loads().values()} <= {0}
    for client in server.supervisor.clients.values():
        assert client.outstanding == 0, client.name
    async with asyncio.timeout(10):  # heartbeats tell of the workers' state, twice a second
        while _held(server):
            await asyncio.sleep(0.1)
    assert server.ledger.live == 0


def _held(server: Server) -> dict[str, int]:
    held = {
        f"{name} {field}": getattr(client.last_heartbeat, field)
        for name, client in server.supervisor.clients.items()
        for field in ("kv_blocks_used", "sequences_running", "sequences_waiting", "buffers")
        if client.last_heartbeat is not None
    }
    held["pixels"] = server.transfer.buffers
    return {name: count for name, count in held.items() if count}
