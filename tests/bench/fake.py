"""An OpenAI-compatible server of which everything is known: when tokens leave, how many it can serve, what it refuses.

It answers in the test's own event loop, over a real socket.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Fake:
    """Tokens leave `first` seconds after a request's turn, then every `gap`; `servers` requests are served at a time
    (None: all), the others wait for their turn."""

    first: float = 0.05
    gap: float = 0.02
    servers: int | None = None
    fail_every: int = 0  # the n-th, 2n-th, ... request is answered 503
    opening: bool = True  # a chunk with nothing but the role comes with the first token
    usage: bool = True
    break_after: int | None = None  # tokens after which the stream carries an error
    bodies: list[dict[str, Any]] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    url: str = ""
    turns: asyncio.Semaphore | None = None

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                headers = {}
                while (header := await reader.readline()).strip():
                    name, _, value = header.decode().partition(":")
                    headers[name.lower()] = value.strip()
                content = await reader.readexactly(int(headers.get("content-length", 0)))
                await self._answer(line.split()[1].decode(), content, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has left, or the test is over
        finally:
            writer.close()

    async def _answer(self, path: str, content: bytes, writer: asyncio.StreamWriter) -> None:
        if path == "/v1/models":
            _whole(writer, 200, {"data": [{"id": "fake", "owned_by": "test"}]})
        elif path != "/v1/chat/completions":
            _whole(writer, 404, {})
        else:
            self.bodies.append(json.loads(content))
            if self.fail_every and len(self.bodies) % self.fail_every == 0:
                _whole(writer, 503, {"error": {"message": "no encoder left"}})
            else:
                await self._stream(self.bodies[-1], writer)
        await writer.drain()

    async def _stream(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with self.turns or asyncio.Semaphore():
                await self._tokens(body.get("max_tokens") or body["max_completion_tokens"], writer)
        finally:
            self.in_flight -= 1

    async def _tokens(self, number: int, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + self.first
        for token in range(number):
            await asyncio.sleep(due - loop.time())
            due += self.gap
            if token == 0:
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                )
                if self.opening:
                    _event(writer, _delta({"role": "assistant", "content": ""}))
            if token == self.break_after:
                _event(writer, {"error": {"message": "worker lost"}})
                break
            _event(writer, _delta({"content": "x "}))
            await writer.drain()
        _event(writer, _delta({}, "length"))
        if self.usage:
            _event(writer, {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": number}})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")


@asynccontextmanager
async def serving(fake: Fake) -> AsyncIterator[Fake]:
    fake.turns = asyncio.Semaphore(fake.servers or 10**6)
    server = await asyncio.start_server(fake.handle, "127.0.0.1", 0, limit=2**20)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        server.close()


def _delta(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def _event(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    _chunk(writer, b"data: " + json.dumps(value).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, content: bytes) -> None:
    writer.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")


def _whole(writer: asyncio.StreamWriter, status: int, value: dict[str, Any]) -> None:
    content = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    writer.write(head.encode() + content)
