"""A small HTTP server on 127.0.0.1 whose every answer is written out by the test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """Answers by path; keeps the request heads it was sent."""

    answers: dict[str, Answer] = field(default_factory=dict)
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    port: int = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.heads.append(head)
                await self.answers[head.split(" ")[1]](writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError, KeyError, ssl.SSLError):
            pass  # the client left, or the test is over
        finally:
            self.open_connections -= 1
            writer.close()


@asynccontextmanager
async def running(tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server()
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()


def reply(body: bytes = b"", status: str = "200 OK", length: bool = True, **headers: str) -> Answer:
    """A plain answer; without `length` the connection's end is the body's."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        if length:
            fields["Content-Length"] = str(len(body))
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)
        if not length:
            await writer.drain()
            writer.close()

    return answer


def chunked(body: bytes, size: int = 1000) -> Answer:
    """An answer that does not say how long it will be."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for at in range(0, len(body), size):
            part = body[at : at + size]
            writer.write(b"%x\r\n%s\r\n" % (len(part), part))
            await writer.drain()
        writer.write(b"0\r\n\r\n")

    return answer


def redirect(location: str, status: str = "302 Found") -> Answer:
    return reply(status=status, Location=location)
