"""Sends an answer, whole or as server-sent events, and drops everything the moment its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from easerve.api.choices import Delta
from easerve.api.errors import Stopping, as_known, error_body
from easerve.api.exchange import Exchange
from easerve.api.formats import Format, collect
from easerve.api.generation import Generation
from easerve.api.streams import until_disconnect
from easerve.errors import EAServeError

STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",  # asks proxies to pass events on as they come
}

_encode = msgspec.json.Encoder().encode


class AnswerResponse(Response):
    """Generates while it sends. What fails before the first token is raised and gets a status of its own."""

    def __init__(self, generation: Generation, form: Format, exchange: Exchange) -> None:
        super().__init__()
        self._generation = generation
        self._format = form
        self._exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_disconnect(receive, self._serve(scope, receive, send))
        except asyncio.CancelledError:
            if self._generation.fields.stream and self._exchange.status is not None:
                await self._break_off(send, Stopping())
            raise
        finally:
            await self._generation.aclose()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        generation = self._generation
        await generation.start()
        async with aclosing(generation.deltas()) as deltas:
            if generation.fields.stream:
                await self._stream(deltas, send)
                return
            answers = await collect(deltas, generation.choice_count)
        body = _encode(self._format.whole(answers, _now()))
        await Response(body, media_type="application/json")(scope, receive, send)

    async def _stream(self, deltas: AsyncGenerator[Delta, None], send: Send) -> None:
        first = await anext(deltas)
        headers = [(name.encode(), value.encode()) for name, value in STREAM_HEADERS.items()]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            await _send_events(send, [*self._format.opening(), *self._format.chunks(first, _now())])
            async for delta in deltas:
                await _send_events(send, self._format.chunks(delta, _now()))
        except Exception as error:
            await self._break_off(send, as_known(error, self._exchange.request_id))
        else:
            await _send_end(send, b"data: [DONE]\n\n")

    async def _break_off(self, send: Send, error: EAServeError) -> None:
        """The status is out already: the error goes into the stream, which ends with it."""
        self._exchange.status = error.status
        await _send_end(send, _event(error_body(error)))


def _event(value: Any) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"


async def _send_events(send: Send, values: Iterable[Any]) -> None:
    body = b"".join(map(_event, values))
    if body:
        await send({"type": "http.response.body", "body": body, "more_body": True})


async def _send_end(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _now() -> float:
    return asyncio.get_running_loop().time()
