"""Pixel buffers have exactly one owner at any moment, and whoever fails gives them back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest

from easerve.api.streams import merge, until_disconnect
from easerve.errors import EAServeError
from easerve.policy.admission import Admission
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
    assert site.pipeline.admission.in_flight == 0


async def test_a_burst_of_slow_pictures_is_shed_before_they_are_fetched(site: Site) -> None:
    site.pipeline.admission, site.media.delay = Admission(2), 0.05
    body = {"messages": user((28, 28))}
    statuses = await asyncio.gather(*(status(site, body) for _ in range(6)))
    assert sorted(statuses) == [200, 200, 429, 429, 429, 429]
    assert site.media.calls == 2
    assert await status(site, body) == 200
    assert site.pipeline.admission.in_flight == 0


@pytest.mark.parametrize("part", ["broken", "2x2", "28x28"])
async def test_a_place_is_free_again_whatever_comes_of_the_pictures(site: Site, part: str) -> None:
    """Refused by the loader, by the model's rules, and by the length that is left."""
    picture = {"type": "image_url", "image_url": {"url": part}}
    assert await status(site, {"messages": [{"role": "user", "content": [picture]}], "max_tokens": 505}) == 400
    assert site.pipeline.admission.in_flight == 0
    assert not site.buffers.live


async def test_a_request_of_several_prompts_takes_as_many_places_or_none(site: Site) -> None:
    site.pipeline.admission = Admission(2)
    async with site.client() as client:
        for prompts, wanted in ((3, 429), (2, 200), (3, 429), (2, 200)):
            answer = await client.post("/v1/completions", json={"prompt": ["hello"] * prompts})
            assert answer.status_code == wanted
    assert site.pipeline.admission.in_flight == 0


async def test_without_room_for_pictures_some_is_made_once(site: Site) -> None:
    body = {"messages": user((28, 28), (28, 56))}
    site.media.full = 1
    assert await status(site, body) == 200
    site.media.full = 2
    async with site.client() as client:
        refused = await client.post(CHAT, json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_room")
    assert refused.headers["retry-after"]
    assert site.pipeline.rooms_made == 2
    assert not site.buffers.live


async def test_pictures_can_be_had_again_as_long_as_they_are_the_same(site: Site) -> None:
    site.pipeline.reload_first = True
    assert await status(site, {"messages": user((28, 28), (28, 56))}) == 200
    assert [ref.shape for ref in site.pipeline.reloaded] == [(28, 28, 3), (28, 56, 3)]
    assert site.buffers.live == {ref.name for ref in site.pipeline.reloaded}, "theirs who asked, and nobody else's"
    site.buffers.live.clear()
    keys = iter("abcd")
    lay = site.media._lay
    site.media._lay = lambda url: msgspec.structs.replace(lay(url), key=next(keys))  # type: ignore[method-assign]
    assert await status(site, {"messages": user((28, 28))}) == 503
    assert not site.buffers.live


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


async def _call(site: Site, messages: list[Any], gone: asyncio.Event, sent: list[Any], *, stream: bool = False) -> None:
    """One request over plain ASGI, whose client leaves when `gone` is set."""
    body = json.dumps({"messages": messages, "stream": stream}).encode()
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


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_shuts_down_midway_says_so(site: Site, stream: bool) -> None:
    """Before the first token by the status, after it in the stream."""
    site.pipeline.delay = 0.05
    site.says("word " * 1000)
    sent: list[Any] = []
    task = asyncio.create_task(_call(site, user((28, 28)), asyncio.Event(), sent, stream=stream))
    await until(lambda: site.pipeline.tokens_given > 1)
    task.cancel()
    await task
    assert sent[0]["status"] == (200 if stream else 503)
    assert b"the server is stopping" in sent[-1]["body"]
    assert not sent[-1].get("more_body")
    assert site.pipeline.running == site.pipeline.admission.in_flight == 0
    assert not site.buffers.live


async def test_a_server_that_shuts_down_while_pictures_load_says_so(site: Site) -> None:
    site.media.delay, sent = 30.0, []
    task = asyncio.create_task(_call(site, user((28, 28)), asyncio.Event(), sent))
    await until(lambda: site.media.calls > 0)
    task.cancel()
    await task
    assert sent[0]["status"] == 503
    assert dict(sent[0]["headers"])[b"retry-after"]
    assert site.pipeline.admission.in_flight == 0


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
