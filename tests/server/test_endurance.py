"""Over thousands of requests memory stays where it was."""

from __future__ import annotations

import asyncio

import httpx
import psutil
import pytest

from easerve.builtin import scenes
from easerve.client import ask
from easerve.server import Server, running

from .conftest import deployment, uri

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]


def resident(server: Server) -> dict[str, int]:
    """Bytes by process."""
    found = {name: psutil.Process(pid).memory_info().rss for name, pid in server.supervisor.pids.items()}
    return found | {"front end": psutil.Process().memory_info().rss}


async def test_resident_memory_is_flat_over_2000_requests() -> None:
    questions = scenes.held_out("one", 40, 21) + scenes.held_out("two", 20, 21)
    prepared = [(example.question, [uri(picture) for picture in example.pictures]) for example in questions]
    async with running(deployment(), lambda *_: None) as server:
        places = asyncio.Semaphore(16)
        async with httpx.AsyncClient(base_url=server.url, timeout=300) as http:

            async def one(index: int) -> None:
                question, urls = prepared[index % len(prepared)]
                async with places:
                    await ask(http, server.model, question, urls, 48)

            await asyncio.gather(*(one(index) for index in range(400)))  # pools, caches and allocators settle
            before = resident(server)
            await asyncio.gather(*(one(index) for index in range(2000)))
            after = resident(server)
        growth = {name: after[name] / before[name] - 1 for name in before}
        assert max(growth.values()) <= 0.05, growth
