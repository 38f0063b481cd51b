"""Pixel buffers have exactly one owner at any moment, and whoever fails gives them back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from easerve.api.streams import merge, until_disconnect
from easerve.errors import EAServeError, Overloaded
from tests.api.doubles import Site, until, user

CHAT = "/v1/chat/completions"


async def status(site: Site, body: dict[str, Any]) -> int:
    async with site.client() as client:
        return (await client.post(CHAT, json=body)).status_code


@pytest.mark.parametrize("error_at", [0, 1, 3])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 2])
async def test_an_error_at_any_token(site: Site, error_at: int, stream: bool, n: int) -> None:
    site.pipeline.error, site.pipeline.error_at = EAServeError("broke"), error_at
    await status(site, {"messages": user((28, 28), (28, 56)), "stream": stream, "n": n})
    assert site.buffers.puts == 2
    assert not site.buffers.live
    assert site.pipeline.running == 0


async def test_a_full_server_sheds_before_any_picture_is_decoded(site: Site) -> None:
    site.pipeline.full = Overloaded("full", retry_after=1)
    assert await status(site, {"messages": user((28, 28))}) == 429
    assert site.buffers.puts == 0


async def test_a_refusal_after_the_pictures_are_down(site: Site) -> None:
    assert await status(site, {"messages": user((28, 28)), "max_tokens": 505}) == 400
    assert not site.buffers.live
    assert not site.pipeline.requests


async def test_a_pipeline_that_cannot_even_be_called(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(request: object, times: object) -> AsyncGenerator[Any, None]:
        raise RuntimeError("no")

    monkeypatch.setattr(site.pipeline, "generate", refuse)
    assert await status(site, {"messages": user((28, 28))}) == 500
    assert site.buffers.puts == 1
    assert not site.buffers.live


async def _call(site: Site, messages: list[Any], gone: asyncio.Event, sent: list[Any]) -> None:
    """One request over plain ASGI, whose client leaves when `gone` is set."""
    body = json.dumps({"messages": messages}).encode()
    first = True

    async def receive() -> dict[str, Any]:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": CHAT, "raw_path": CHAT.encode(), "query_string": b"", "headers": [],
        "http_version": "1.1", "scheme": "http", "server": ("x", 80), "client": ("x", 1), "root_path": "",
    }  # fmt: skip
    await site.app(scope, receive, send)


async def test_a_server_that_shuts_down_midway(site: Site) -> None:
    site.pipeline.delay = 30
    task = asyncio.create_task(_call(site, user((28, 28)), asyncio.Event(), []))
    await until(lambda: site.pipeline.running > 0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert site.pipeline.running == 0
    assert not site.buffers.live


async def test_until_disconnect_does_the_work_or_tells() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    async def at_once() -> Any:
        return {"type": "http.disconnect"}

    async def fails() -> None:
        raise ValueError

    assert await until_disconnect(never, asyncio.sleep(0))
    assert not await until_disconnect(at_once, asyncio.sleep(30))
    with pytest.raises(ValueError):
        await until_disconnect(never, fails())


async def test_merge_closes_every_source() -> None:
    closed: list[int] = []

    async def source(k: int, fail: bool = False) -> AsyncGenerator[int, None]:
        try:
            for item in range(3):
                await asyncio.sleep(0.001 * (k + 1))
                yield 10 * k + item
            if fail:
                raise ValueError
        finally:
            closed.append(k)

    assert sorted([item async for item in merge([source(0), source(1)])]) == [0, 1, 2, 10, 11, 12]
    assert [item async for item in merge([source(0)])] == [0, 1, 2]
    closed.clear()
    with pytest.raises(ValueError):
        async for _ in merge([source(0), source(1, fail=True), source(50)]):
            pass
    assert sorted(closed) == [0, 1, 50]
