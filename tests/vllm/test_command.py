"""`easerve serve --engine vllm` as a user starts it, asked through the official client; what is cut off is freed."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from openai import AsyncOpenAI
from prometheus_client.parser import text_string_to_metric_families

from easerve.builtin import scenes
from tests.server.conftest import messages, uri
from tests.server.test_life import serving

EXAMPLES: Sequence[scenes.Example] = scenes.held_out("one", 4, 8) + scenes.held_out("two", 4, 8)
HELD = (
    "requests_admitted", "encode_queue_items", "pending_tokens", "embedding_cache_pinned",
    "sequences_running", "sequences_waiting", "kv_blocks_used",
)  # fmt: skip
LOOKS = 100  # at the metrics before something counts as never freed
LEFT_EARLY = 8  # streams
LONG = 2000  # tokens; a stream is left after three


def test_a_command_serves_the_official_client_and_frees_what_is_cut_off() -> None:
    options = ("--engine", "vllm", "--engine-args", "enforce_eager=true", "--kv-cache-gb", "0.1")
    with serving(*options) as (process, url, workers):
        asyncio.run(_use(url))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert [worker for worker in workers if worker.is_running()] == []


async def _use(url: str) -> None:
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        (model,) = [one.id async for one in client.models.list()]
        left = [_leave(client, model, example) for example in EXAMPLES[:LEFT_EARLY]]
        await asyncio.gather(*left, *(_answered(client, model, example) for example in EXAMPLES))
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        found = await _with_nothing_held(http)
    assert found["requests_in_flight"] == 1  # that for the metrics
    assert found["requests_total 499"] == LEFT_EARLY
    assert found["generation_tokens_total"] < LEFT_EARLY * LONG / 2


async def _answered(client: AsyncOpenAI, model: str, example: scenes.Example) -> None:
    body = _body(model, example)
    whole = await client.chat.completions.create(**body)
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == (example.answer, "stop")
    stream = await client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True})
    pieces = [piece async for piece in stream]
    assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == example.answer
    assert pieces[-1].usage == whole.usage


async def _leave(client: AsyncOpenAI, model: str, example: scenes.Example) -> None:
    body = _body(model, example) | {"max_tokens": LONG, "extra_body": {"ignore_eos": True}}
    async with await client.chat.completions.create(**body, stream=True) as stream:
        tokens = 0
        async for piece in stream:
            tokens += bool(piece.choices and piece.choices[0].delta.content)
            if tokens == 3:
                return


def _body(model: str, example: scenes.Example) -> dict[str, Any]:
    urls = [uri(picture) for picture in example.pictures]
    return {"model": model, "messages": messages(example.question, urls), "temperature": 0}


async def _with_nothing_held(http: httpx.AsyncClient) -> Counter[str]:
    """Metrics, once they say so; workers tell of themselves twice a second."""
    for _ in range(LOOKS):
        found = await _metrics(http)
        held = {name: found[name] for name in HELD if found[name]}
        if not held:
            return found
        await asyncio.sleep(0.2)
    pytest.fail(f"still held: {held}")


async def _metrics(http: httpx.AsyncClient) -> Counter[str]:
    """Sums over all labels, and of responses by status too."""
    sums: Counter[str] = Counter()
    for family in text_string_to_metric_families((await http.get("/metrics")).text):
        for sample in family.samples:
            name = sample.name.removeprefix("easerve_")
            sums[name] += sample.value
            sums[f"{name} {sample.labels.get('status')}"] += sample.value
    return sums
