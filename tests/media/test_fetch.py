"""Downloads end: with the bytes, or with an error that says which host and why."""

from __future__ import annotations

import asyncio
import gzip
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from easerve.errors import BadRequest, EAServeError, Overloaded, TooLarge
from easerve.media.addresses import AddressGuard
from easerve.media.fetch import Fetcher
from easerve.media.options import MediaOptions
from tests.media.servers import Server, chunked, redirect, reply, running

LOCAL = ("127.0.0.1", ".test")


async def _here(host: str, port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@asynccontextmanager
async def fetching(**options: Any) -> AsyncIterator[tuple[Server, Fetcher]]:
    options = {"fetch_timeout_s": 3.0, "allowed_domains": LOCAL, **options}
    settings = MediaOptions(**options)
    fetcher = Fetcher(settings, AddressGuard(settings.allowed_domains, _here))
    async with running() as server:
        try:
            yield server, fetcher
        finally:
            await fetcher.aclose()


async def refused(fetcher: Fetcher, url: str, kind: type[EAServeError] = BadRequest) -> str:
    with pytest.raises(kind) as caught:
        await fetcher.fetch(url)
    assert type(caught.value) is kind
    return caught.value.message


@pytest.mark.parametrize("length", [True, False])
async def test_a_body_arrives_whole(length: bool) -> None:
    body = bytes(range(256)) * 1000
    async with fetching() as (server, fetcher):
        server.answers["/a"] = reply(body, length=length, Content_Type="image/png")
        assert await fetcher.fetch(server.url("/a")) == body


async def test_an_answer_that_drips_is_cut_off_at_the_time_limit() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with fetching(fetch_timeout_s=0.4) as (server, fetcher):
        server.answers["/drip"] = drip
        started = time.monotonic()
        message = await refused(fetcher, server.url("/drip"))
        assert "'127.0.0.1' took longer than 0.4 s" in message
        assert time.monotonic() - started < 2
        await asyncio.sleep(0.2)
        assert server.open_connections == 0


async def test_redirects_share_one_time_limit() -> None:
    async def slow(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.3)
        await redirect("/slow")(writer)

    async with fetching(fetch_timeout_s=0.5, max_redirects=50) as (server, fetcher):
        server.answers["/slow"] = slow
        assert "took longer" in await refused(fetcher, server.url("/slow"))


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 Other", "307 Same", "308 Same"])
async def test_redirects_are_followed(status: str) -> None:
    async with fetching() as (server, fetcher):
        server.answers |= {"/a/b": redirect("../c?d=1", status), "/c?d=1": reply(b"ok")}
        assert await fetcher.fetch(server.url("/a/b")) == b"ok"


async def test_a_redirect_loop_ends() -> None:
    async with fetching(max_redirects=3) as (server, fetcher):
        server.answers["/loop"] = redirect("/loop")
        assert "more than 3 redirects" in await refused(fetcher, server.url("/loop"))
        assert len(server.heads) == 4


@pytest.mark.parametrize(
    ("location", "word"),
    [
        ("http://10.0.0.1/secret", "'10.0.0.1' is not among those"),
        ("http://elsewhere.example/", "'elsewhere.example' is not among those"),
        ("file:///etc/passwd", "only http and https"),
        ("data:image/png;base64,AAAA", "redirects to what is no valid URL"),
        ("http://[bad/", "not among those"),
        ("http://a:b:c/", "redirects to what is no valid URL"),
    ],
)
async def test_each_redirect_is_judged_anew(location: str, word: str) -> None:
    async with fetching() as (server, fetcher):
        server.answers["/a"] = redirect(location)
        assert word in await refused(fetcher, server.url("/a"))


async def test_a_public_host_cannot_redirect_to_a_private_one() -> None:
    """No domains are named; the first host counts as public for this test only."""

    class Guard(AddressGuard):
        async def addresses_of(self, host: str, port: int) -> list[str]:
            return ["127.0.0.1"] if host == "public.example" else await super().addresses_of(host, port)

    async with running() as server:
        fetcher = Fetcher(MediaOptions(), Guard(()))
        server.answers |= {"/a": redirect(server.url("/secret")), "/secret": reply(b"secret")}
        message = await refused(fetcher, server.url("/a", "public.example"))
        assert "'127.0.0.1' is not on the public internet" in message
        assert len(server.heads) == 1
        await fetcher.aclose()


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (reply(b"secret text", "404 Not Found"), "status 404"),
        (reply(b"secret text", "500 Oops"), "status 500"),
        (reply(b"", "304 Not Modified"), "status 304"),
        (reply(b"secret text", Content_Type="text/html; charset=utf-8"), "an HTML page"),
        (reply(b"secret text", Content_Type="application/json"), "JSON"),
        (reply(b"secret text", Content_Type="image/svg+xml"), "an SVG drawing"),
        (reply(b"secret text", Content_Type="video/mp4"), "video/mp4"),
        (reply(gzip.compress(b"secret text"), Content_Encoding="gzip"), "gzip"),
    ],
)
async def test_answers_that_hold_no_picture_are_named_and_not_quoted(answer: Any, word: str) -> None:
    async with fetching() as (server, fetcher):
        server.answers["/a"] = answer
        message = await refused(fetcher, server.url("/a"))
        assert word in message
        assert "127.0.0.1" in message
        assert "secret" not in message


@pytest.mark.parametrize("length", [True, False])
async def test_a_body_over_the_limit_is_too_large(length: bool) -> None:
    async with fetching(max_bytes=1000) as (server, fetcher):
        server.answers |= {"/over": reply(bytes(1001), length=length), "/at": reply(bytes(1000), length=length)}
        server.answers |= {"/chunks-over": chunked(bytes(1001), 300), "/chunks-at": chunked(bytes(1000), 300)}
        for path in ("/over", "/chunks-over"):
            message = await refused(fetcher, server.url(path), TooLarge)
            assert "'127.0.0.1' is larger than 1000 bytes" in message
            assert "scale it down" in message
        for path in ("/at", "/chunks-at"):
            assert len(await fetcher.fetch(server.url(path))) == 1000


async def test_an_announced_size_is_refused_before_the_body_and_an_endless_one_soon() -> None:
    async def announce(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")

    async def pour(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not writer.is_closing():
            writer.write(bytes(65536))
            await writer.drain()

    async with fetching(max_bytes=10**6) as (server, fetcher):
        server.answers |= {"/announce": announce, "/pour": pour}
        for path in server.answers:
            await refused(fetcher, server.url(path), TooLarge)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
async def test_an_answer_cut_short_or_not_http_is_a_bad_request(head: bytes) -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        await writer.drain()
        writer.close()

    async with fetching() as (server, fetcher):
        server.answers["/a"] = answer
        message = await refused(fetcher, server.url("/a"))
        assert "'127.0.0.1' failed: its answer is cut short or no valid HTTP" in message


async def test_a_refused_connection_names_host_and_reason_but_no_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with fetching() as (_, fetcher):
        message = await refused(fetcher, f"http://files.test:{port}/x?token=hidden")
    assert "'files.test' failed: connection refused" in message
    assert "127.0.0.1" not in message
    assert "hidden" not in message


async def test_passwords_stay_out_of_messages() -> None:
    async with fetching() as (server, fetcher):
        server.answers["/a"] = reply(status="401 Unauthorized")
        message = await refused(fetcher, f"http://user:hidden@127.0.0.1:{server.port}/a?key=hidden")
        assert "hidden" not in message


async def test_cookies_of_one_request_do_not_reach_another() -> None:
    async with fetching() as (server, fetcher):
        server.answers["/a"] = reply(b"ok", Set_Cookie="session=secret; Path=/")
        for _ in range(2):
            await fetcher.fetch(server.url("/a"))
        assert "cookie" not in "".join(server.heads).lower()


async def test_connections_are_reused_per_host_only() -> None:
    async with fetching() as (server, fetcher):
        server.answers["/a"] = reply(b"ok")
        for host in ("one.test", "one.test", "two.test"):
            await fetcher.fetch(server.url("/a", host))
        assert server.connections == 2
        assert [head.split("Host: ")[1].split(":")[0] for head in server.heads] == ["one.test", "one.test", "two.test"]


async def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with fetching() as (server, fetcher):
        server.answers["/a"] = reply(b"ok")
        assert await fetcher.fetch(server.url("/a")) == b"ok"


async def test_downloads_at_once_are_bounded_and_waiting_ends() -> None:
    release = asyncio.Event()

    async def hold(writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await reply(b"ok")(writer)

    async with fetching(max_downloads=2, fetch_timeout_s=1.0) as (server, fetcher):
        server.answers["/hold"] = hold
        tasks = [asyncio.create_task(fetcher.fetch(server.url("/hold"))) for _ in range(4)]
        await asyncio.sleep(0.3)
        assert server.connections == 2
        release.set()
        assert await asyncio.gather(*tasks) == [b"ok"] * 4
        release.clear()
        for _ in range(2):
            await fetcher._places.acquire()
        message = await refused(fetcher, server.url("/hold"), Overloaded)
        assert "too many downloads" in message


@pytest.mark.parametrize(
    "url", ["http://", "http:///a", "http://[::1/", "http://a:99999/", "http://a b/", "http://\0/"]
)
async def test_urls_that_are_none(url: str) -> None:
    async with fetching() as (_, fetcher):
        await refused(fetcher, url)
