"""One HTTP exchange from outside: its id, its key, its measures, and the last net for exceptions.

Plain ASGI, so that nothing stands between an endpoint and the news that its client has left.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from easerve.api.errors import CLIENT_CLOSED, Stopping, Unauthorized, as_known, error_response
from easerve.observe.metrics import RequestMetrics

REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")  # what may go back into a header and a log line


@dataclass
class Exchange:
    """What is known of the exchange; endpoints find it as `request.state.exchange`."""

    request_id: str
    received: float  # loop time
    status: int | None = None  # sent, or counted instead of the one sent
    ended: bool = False  # the whole response has gone out


class ExchangeMiddleware:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics, api_keys: Sequence[str]) -> None:
        self._app = app
        self._metrics = metrics
        self._keys = tuple(key.encode() for key in api_keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        exchange = Exchange(_request_id(headers), asyncio.get_running_loop().time())
        scope.setdefault("state", {})["exchange"] = exchange
        with self._metrics.in_flight.track_inprogress():
            try:
                await self._answer(scope, receive, _marking(send, exchange), headers, exchange)
            finally:
                self._count(scope, exchange)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, headers: Headers, exchange: Exchange) -> None:
        try:
            self._check_key(scope["path"], headers)
            await self._app(scope, receive, send)
        except asyncio.CancelledError:  # with an answer to it the exchange is over: there is nothing left to cancel
            if exchange.status is None:
                await error_response(Stopping())(scope, receive, send)
        except Exception as error:
            known = as_known(error, exchange.request_id)
            if exchange.status is None:
                await error_response(known)(scope, receive, send)

    def _check_key(self, path: str, headers: Headers) -> None:
        if not self._keys or not path.startswith("/v1"):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        matches = [hmac.compare_digest(given.strip().encode(), key) for key in self._keys]
        if scheme.lower() != "bearer" or not any(matches):
            raise Unauthorized("the API key is missing or wrong; send it as `Authorization: Bearer KEY`")

    def _count(self, scope: Scope, exchange: Exchange) -> None:
        endpoint = getattr(scope.get("route"), "path", "none")
        status = exchange.status if exchange.ended and exchange.status else CLIENT_CLOSED
        self._metrics.requests.labels(endpoint, str(status)).inc()
        self._metrics.request_duration.labels(endpoint).observe(asyncio.get_running_loop().time() - exchange.received)


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _marking(send: Send, exchange: Exchange) -> Send:
    """`send` that puts the request id on the response and notes how far it got."""

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            exchange.status = message["status"]
            MutableHeaders(scope=message)["x-request-id"] = exchange.request_id
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            exchange.ended = True

    return marked
