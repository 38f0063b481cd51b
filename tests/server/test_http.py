"""The HTTP server's socket."""

from __future__ import annotations

import asyncio
import socket

from fastapi import FastAPI

from easerve.server.http import listening, serving


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
            port = listener.getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            await reader.read()
            writer.close()
    assert len(found) == 2  # the client's end and the server's
    assert all(found)
