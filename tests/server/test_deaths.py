"""Workers that are killed, stalled or gone for good, under real load: no accepted request is lost, nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from random import Random
from typing import Any

import httpx
import psutil
import pytest

from easerve.builtin import scenes
from easerve.server import Server, running

from .conftest import deployment, messages, run_folders, uri
from .traffic import answers, assert_nothing_is_held, mixed

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = uri(scenes.held_out("one", 1)[0].pictures[0])


@asynccontextmanager
async def serving(**fields: Any) -> AsyncIterator[tuple[Server, httpx.AsyncClient]]:
    async with (
        running(deployment(**fields), lambda *_: None) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        yield server, http


async def post(http: httpx.AsyncClient, question: str, urls: list[str], **fields: object) -> httpx.Response:
    body = {"messages": messages(question, urls), "temperature": 0, "max_tokens": 8} | fields
    return await http.post("/v1/chat/completions", json=body)


async def text(http: httpx.AsyncClient, **fields: object) -> str:
    response = await post(http, "what is one plus one ?", [], **fields)
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


async def until_all_are_up(server: Server) -> None:
    async with asyncio.timeout(60):
        while len(server.supervisor.clients) < len(server.supervisor.restarts):
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("topology", ["colocated", "e-p-d"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_a_stream_goes_on_without_gap_or_repeat_when_its_worker_is_killed(
    topology: str, temperature: float
) -> None:
    async with serving(topology=topology) as (server, http):
        fields = {"max_tokens": 400, "ignore_eos": True, "temperature": temperature, "seed": 7}
        wanted = await text(http, **fields)
        victims = ["generate-0"] if topology == "colocated" else ["decode-0", "prefill-0"]
        running_text = asyncio.create_task(text(http, **fields))
        await asyncio.sleep(0.15)
        for victim in victims:
            os.kill(server.supervisor.pids[victim], signal.SIGKILL)
        assert await running_text == wanted
        assert server.supervisor.restarts[victims[0]] == 1
        await until_all_are_up(server)
        await assert_nothing_is_held(server)


async def test_a_stalled_worker_is_found_by_its_silence() -> None:
    async with serving(heartbeat_timeout=1.0) as (server, http):
        stalled = server.supervisor.pids["encode-0"]
        os.kill(stalled, signal.SIGSTOP)
        asked = asyncio.create_task(post(http, "how many shapes are there ?", [PICTURE]))
        assert await text(http) == "two", "text waited for encode"
        response = await asked
        assert response.status_code == 200, response.text
        assert not psutil.pid_exists(stalled)
        assert server.supervisor.restarts == {"encode-0": 1, "generate-0": 0}


async def test_with_all_encoders_gone_media_get_503_and_text_is_served() -> None:
    seen = uri(scenes.held_out("one", 3)[2].pictures[0])
    async with serving(max_restarts=0) as (server, http):
        answered = await post(http, "how many shapes are there ?", [seen])
        asked = asyncio.create_task(post(http, "how many shapes are there ?", [PICTURE] * 8, max_tokens=60))
        os.kill(server.supervisor.pids["encode-0"], signal.SIGKILL)
        assert (await asked).status_code in (200, 503)  # 200 if encode was through
        refused = await post(http, "how many shapes are there ?", [uri(scenes.held_out("one", 2)[1].pictures[0])])
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "unavailable"
        assert refused.headers["retry-after"]
        cached = await post(http, "how many shapes are there ?", [seen])
        assert cached.status_code == 200, cached.text
        assert cached.json()["choices"] == answered.json()["choices"]
        assert await text(http) == "two"
        assert (await http.get("/health")).status_code == 200
        os.kill(server.supervisor.pids["generate-0"], signal.SIGKILL)
        await asyncio.sleep(0.5)
        assert (await post(http, "what is one plus one ?", [])).status_code == 503
        assert (await http.get("/health")).status_code == 503
        assert (await http.get("/live")).status_code == 200
        await assert_nothing_is_held(server)


async def test_a_worker_that_cannot_come_back_is_given_up() -> None:
    async with serving(max_restarts=2) as (server, http):
        for _ in range(3):
            await until_all_are_up(server)
            os.kill(server.supervisor.pids["encode-0"], signal.SIGKILL)
            await asyncio.sleep(0.3)
        assert server.supervisor.restarts["encode-0"] == 2
        assert (await post(http, "describe the picture .", [PICTURE])).status_code == 503
        assert await text(http) == "two"


@pytest.mark.parametrize(
    ("shape", "every"),
    [
        pytest.param({"topology": "e-pd", "encoders": 2, "decoders": 2}, 2.0, id="e-pd"),
        # Every stage but one has a single worker here: each death stops the line until the worker is back.
        pytest.param(
            {"topology": "easerve", "encoders": 2, "transfer": "zmq", "batching": "gap"},
            6.0,
            id="easerve",
            marks=pytest.mark.slow,
        ),
    ],
)
async def test_chaos(shape: dict[str, Any], every: float) -> None:
    """500 requests while a random worker is killed or stalled time and again: 500 right answers, and nothing left."""
    before, questions = run_folders(), mixed(500, seed=9)
    distinct = {id(example): example for example in questions}
    async with serving(heartbeat_timeout=1.5, max_restarts=1000, **shape) as (server, _):
        texts = dict(zip(distinct, await answers(server, list(distinct.values()), 4), strict=True))
        killer = asyncio.create_task(_kill(server, every, Random(9)))
        got: list[str] = []
        while len(got) < 500 or sum(server.supervisor.restarts.values()) < 3:  # on a fast machine 500 outrun the deaths
            start = len(got) % 500
            got += await answers(server, questions[start : start + 100], 16, patience=300)
        killer.cancel()
        kills = sum(server.supervisor.restarts.values())
        assert kills >= 3
        assert [text for text, example in zip(got, cycle(questions), strict=False) if text != texts[id(example)]] == []
        await until_all_are_up(server)
        await assert_nothing_is_held(server)
        pids = server.supervisor.pids
    assert run_folders() == before
    assert [pid for pid in pids.values() if psutil.pid_exists(pid)] == []


async def _kill(server: Server, every: float, rng: Random) -> None:
    while True:
        await asyncio.sleep(every)
        pids = list(server.supervisor.pids.values())
        if pids:
            os.kill(rng.choice(pids), rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSTOP)))
