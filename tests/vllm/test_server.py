"""Whole servers whose language model is vLLM's: the same answers in each topology, and no request lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI

from easerve.builtin import scenes
from easerve.builtin.exam import Candidate
from easerve.server import Server, running
from tests.server.conftest import deployment, messages, uri
from tests.server.traffic import answers, assert_nothing_is_held, mixed

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTIONS = mixed(60, seed=12)
EAGER = ("enforce_eager=true",)  # nothing to compile: these servers live for seconds


@asynccontextmanager
async def serving(**fields: Any) -> AsyncIterator[Server]:
    given = {"engine": "vllm", "engine_args": EAGER, "kv_cache_gb": 0.1} | fields
    async with running(deployment(**given), lambda *_: None) as server:
        yield server


@pytest.fixture(scope="session")
def expected() -> list[str]:
    """What the torch engine answers."""
    return Candidate().answer(QUESTIONS)


async def test_a_server_in_a_crowd_and_through_deaths(expected: list[str]) -> None:
    async with serving(topology="e-pd", decoders=2) as server:
        assert await answers(server, QUESTIONS, 32) == expected
        await _the_official_client_is_served(server)
        await _a_bad_request_fails_alone(server)
        await _a_client_that_leaves_frees_everything(server)
        await assert_nothing_is_held(server)
        await _a_killed_worker_loses_nothing(server, expected)


async def _the_official_client_is_served(server: Server) -> None:
    example = scenes.held_out("two", 1, 5)[0]
    body: dict[str, Any] = {
        "model": server.model,
        "messages": messages(example.question, [uri(picture) for picture in example.pictures]),
        "temperature": 0,
        "logprobs": True,
        "top_logprobs": 2,
    }
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        whole = await client.chat.completions.create(**body)
        pieces = [piece async for piece in await client.chat.completions.create(**body, stream=True)]
    choice = whole.choices[0]
    assert choice.message.content == example.answer
    assert choice.finish_reason == "stop"
    assert len(choice.logprobs.content[0].top_logprobs) == 2
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == example.answer


async def _a_bad_request_fails_alone(server: Server) -> None:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        bodies = [
            {"messages": messages("what is one plus one ?", []), "temperature": 0},
            {"messages": messages("what is one plus one ? " * 2000, []), "temperature": 0},
            {"messages": messages("what is one plus one ?", []), "temperature": 0, "max_tokens": -1},
        ]
        responses = await asyncio.gather(*(http.post("/v1/chat/completions", json=body) for body in bodies))
    assert [response.status_code for response in responses] == [200, 400, 400]
    assert responses[1].json()["error"]["code"] == "context_length_exceeded"


async def _a_client_that_leaves_frees_everything(server: Server) -> None:
    body = {"messages": messages("what is one plus one ?", []), "max_tokens": 3000, "ignore_eos": True}
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/v1/chat/completions", json=body, timeout=1.0)
    async with asyncio.timeout(10):
        while server.pipeline.admission.in_flight:
            await asyncio.sleep(0.05)


async def _a_killed_worker_loses_nothing(server: Server, expected: list[str]) -> None:
    asked = asyncio.create_task(answers(server, QUESTIONS * 3, 16))
    await asyncio.sleep(1.0)
    assert not asked.done()
    os.kill(server.supervisor.pids["generate-0"], signal.SIGKILL)
    assert await asked == expected * 3
    assert server.supervisor.restarts == {"encode-0": 0, "generate-0": 1, "generate-1": 0}


@pytest.mark.parametrize("topology", ["aggregated", "easerve"])
async def test_topologies_answer_alike(topology: str, expected: list[str]) -> None:
    """`easerve` has every way for keys and values: from local prefill, which is torch's, and from vLLM, to vLLM."""
    async with serving(topology=topology) as server:
        assert await answers(server, QUESTIONS, 32) == expected
        await assert_nothing_is_held(server)
