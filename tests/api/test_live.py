"""Over real sockets: the official client, and clients that leave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from easerve.api.options import ApiOptions
from easerve.errors import EAServeError, Overloaded
from tests.api.doubles import Site, make_site, until, user

SOON = 0.1  # seconds within which a departed client must be forgotten


@asynccontextmanager
async def serving(site: Site) -> AsyncIterator[str]:
    """The site on a free port of the loopback interface; gives its base URL."""
    server = uvicorn.Server(uvicorn.Config(site.app, port=0, log_level="error", access_log=False, lifespan="off"))
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


@pytest.fixture
async def url(site: Site) -> AsyncIterator[str]:
    async with serving(site) as base:
        yield base


MESSAGES: Any = user("how many shapes are there ?", (56, 56))


async def test_openai_async_client(site: Site, url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="-") as client:
        whole = await client.chat.completions.create(model="tiny", messages=MESSAGES)
        stream = await client.chat.completions.create(
            model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        models = await client.models.list()
        completion = await client.completions.create(model="tiny", prompt=["hello", "world"], logprobs=1, max_tokens=50)
    assert whole.choices[0].message.content == "the red circle"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "the red circle"
    assert chunks[-1].usage == whole.usage
    assert [model.id for model in models.data] == ["tiny"]
    assert [choice.text for choice in completion.choices] == ["the red circle"] * 2
    logprobs = completion.choices[1].logprobs
    assert logprobs is not None
    assert "".join(logprobs.tokens or []) == "the red circle"
    assert not site.buffers.live


async def test_openai_sync_client(site: Site, url: str) -> None:
    def talk() -> tuple[str | None, str, str]:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="-") as client:
            whole = client.chat.completions.create(model="tiny", messages=MESSAGES)
            stream = client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            tokens = client.completions.create(model="tiny", prompt=[20, 21, 22], max_tokens=2)
            return whole.choices[0].message.content, text, tokens.choices[0].finish_reason

    assert await asyncio.to_thread(talk) == ("the red circle", "the red circle", "length")


async def test_openai_client_raises_its_typed_errors(site: Site, url: str) -> None:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as bad:
            await client.chat.completions.create(model="tiny", messages=[])
        assert bad.value.param == "messages"
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model="other", messages=MESSAGES)
        site.pipeline.error = Overloaded("full")
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model="tiny", messages=MESSAGES)
        site.pipeline.error, site.pipeline.error_at = EAServeError("broke"), 2
        stream = await client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError, match="broke"):
            _ = [chunk async for chunk in stream]


async def test_concurrent_requests_get_their_own_answers(site: Site, url: str) -> None:
    site.pipeline.delay = 0.001
    site.pipeline.script = lambda request, index: list(request.prompt)
    async with httpx.AsyncClient(base_url=url) as client:

        async def ask(k: int) -> None:
            body = {"prompt": f"hello {k}", "max_tokens": 50, "stream": False}
            answer = (await client.post("/v1/completions", json=body)).json()
            assert answer["choices"][0]["text"] == f"hello {k}"

        await asyncio.gather(*(ask(k) for k in range(40)))
    assert site.pipeline.running == 0


async def raw(url: str, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A socket on which a chat request has been sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    content = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("abrupt", [False, True])
async def test_a_client_that_leaves_midway_frees_everything(site: Site, url: str, stream: bool, abrupt: bool) -> None:
    site.pipeline.delay = 0.01
    site.pipeline.script = lambda request, index: [20] * 400
    reader, writer = await raw(url, {"messages": MESSAGES, "stream": stream})
    if stream:
        await reader.readuntil(b'"content":')
    await until(lambda: site.pipeline.tokens_given >= 3)
    assert site.buffers.live
    left = asyncio.get_running_loop().time()
    if abrupt:
        writer.transport.abort()
    else:
        writer.close()
    await asyncio.wait_for(site.pipeline.closed.wait(), 2)
    assert site.pipeline.closed_at - left < SOON
    assert not site.buffers.live
    given = site.pipeline.tokens_given
    await asyncio.sleep(0.05)
    assert site.pipeline.tokens_given == given
    async with httpx.AsyncClient(base_url=url) as client:
        metrics = (await client.get("/metrics")).text
    assert 'status="499"} 1.0' in metrics


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_leaves_before_the_first_token_frees_everything(site: Site, url: str, stream: bool) -> None:
    site.pipeline.delay = 30
    _, writer = await raw(url, {"messages": MESSAGES, "stream": stream})
    await until(lambda: site.pipeline.running > 0)
    left = time.monotonic()
    writer.close()
    await asyncio.wait_for(site.pipeline.closed.wait(), 2)
    assert time.monotonic() - left < SOON
    assert not site.buffers.live


async def test_a_client_that_leaves_while_pictures_load_reaches_no_pipeline(site: Site, url: str) -> None:
    site.media.delay = 30
    _, writer = await raw(url, {"messages": MESSAGES})
    await until(lambda: site.media.calls > 0)
    writer.close()
    await asyncio.sleep(SOON)
    async with httpx.AsyncClient(base_url=url) as client:
        assert 'status="499"} 1.0' in (await client.get("/metrics")).text
    assert not site.pipeline.requests
    assert not site.buffers.live


async def test_a_client_that_leaves_while_sending_is_forgotten(site: Site, url: str) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
    await writer.drain()
    await asyncio.sleep(0.05)
    writer.close()
    await asyncio.sleep(SOON)
    async with httpx.AsyncClient(base_url=url) as client:
        assert "easerve_requests_in_flight 1.0" in (await client.get("/metrics")).text  # this one


async def test_too_large_a_body_is_refused_before_it_is_sent(tokenizer_folder: Path) -> None:
    site = make_site(tokenizer_folder)
    async with serving(site) as base:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
        writer.write(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
        await writer.drain()
        head = await asyncio.wait_for(reader.readuntil(b"\r\n"), 2)
        assert b" 413 " in head
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_api_keys_through_the_official_client(tokenizer_folder: Path) -> None:
    """Both endpoints and the list of models; streams too."""
    site = make_site(tokenizer_folder, options=ApiOptions(api_keys=("k1", "k2")))
    async with serving(site) as url:
        for key in ("k1", "k2"):
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key) as client:
                whole = await client.chat.completions.create(model="tiny", messages=MESSAGES)
                assert whole.choices[0].message.content == "the red circle"
                assert [model.id for model in (await client.models.list()).data] == ["tiny"]
        for key in ("k3", "k"):
            async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client:
                calls = (
                    client.chat.completions.create(model="tiny", messages=MESSAGES, stream=True),
                    client.completions.create(model="tiny", prompt="hello"),
                    client.models.list(),
                )
                for call in calls:
                    with pytest.raises(openai.AuthenticationError) as refused:
                        await call
                    assert refused.value.code == "invalid_api_key"
    assert len(site.pipeline.requests) == 2
