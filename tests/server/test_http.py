"""The HTTP server's socket."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from easerve.config import Deployment
from easerve.errors import StartupError
from easerve.server import running
from easerve.server.http import listening, serving, url_of

INTERFACES = Path("/proc/net/if_inet6")
WITH_IPV6 = pytest.mark.skipif(
    not INTERFACES.is_file() or " lo\n" not in INTERFACES.read_text(), reason="no IPv6 on this machine"
)


def test_it_says_which_option_keeps_it_from_starting() -> None:
    with listening("127.0.0.1", 0) as taken, pytest.raises(StartupError, match="--port"):
        with listening("127.0.0.1", taken.getsockname()[1]):
            pass
    with pytest.raises(StartupError, match="--host"), listening("192.0.2.1", 0):  # a documentation address
        pass


async def test_a_media_folder_that_is_none_is_told_before_anything_starts(tmp_path: Path) -> None:
    deployment = Deployment(device="cpu", allowed_local_media_path=tmp_path / "nowhere")
    with pytest.raises(StartupError, match=r"--allowed-local-media-path .*nowhere is no folder"):
        async with running(deployment, lambda *_: pytest.fail("a worker was started")):
            pass


async def test_answers_are_not_held_back_for_acknowledgements() -> None:
    app, found = FastAPI(), []

    @app.get("/")
    async def root() -> None:
        loop = asyncio.get_running_loop()
        transports = list(loop._transports.values())  # type: ignore[attr-defined]
        sockets = [transport.get_extra_info("socket") for transport in transports]
        found.extend(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets)

    with listening("127.0.0.1", 0) as listener:
        async with serving(app, listener, 1.0):
            await closed_by_server(listener.getsockname()[1])
    assert len(found) == 2  # the client's end and the server's
    assert all(found)


async def test_a_server_can_start_where_one_just_ended() -> None:
    port = 0
    for _ in range(3):
        with listening("127.0.0.1", port) as listener:
            port = listener.getsockname()[1]
            async with serving(FastAPI(), listener, 1.0):
                await closed_by_server(port)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", pytest.param("::1", marks=WITH_IPV6)])
async def test_its_url_is_one_for_clients(host: str) -> None:
    with listening(host, 0) as listener:
        async with serving(FastAPI(), listener, 1.0), httpx.AsyncClient(base_url=url_of(host, listener)) as client:
            assert (await client.get("/openapi.json")).status_code == 200


async def closed_by_server(port: int) -> None:
    """A request whose connection the server closes, so that the server's port keeps a trace of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    await reader.read()
    writer.close()
