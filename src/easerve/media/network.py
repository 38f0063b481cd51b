"""HTTP connections that can only go where the address guard lets them.

The guard sits where sockets are opened, below names, redirects and TLS: the Host header, SNI and certificate checks
stay the host's own, pooled connections belong to one host, and nothing above can forget to ask.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpcore
import httpx

from easerve.errors import EAServeError
from easerve.media.addresses import AddressGuard

_NEXT_ADDRESS_S = 3.0  # before a host's next address is tried, where it has several
NETWORK_ERRORS = (
    httpx.HTTPError,
    httpx.StreamError,
    httpx.InvalidURL,  # httpx looks at where a redirect goes even if it is not to follow
    httpcore.NetworkError,
    httpcore.TimeoutException,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
    OSError,
)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens sockets to judged addresses only; `inner` does the opening."""

    def __init__(self, guard: AddressGuard, inner: httpcore.AsyncNetworkBackend | None = None) -> None:
        self._guard = guard
        self._inner = inner or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """A stream to the first address of `host` that answers. Raises BadRequest if the guard refuses."""
        addresses = await self._guard.addresses_of(host, port)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(
                    address,
                    port,
                    timeout=_NEXT_ADDRESS_S if address != addresses[-1] else timeout,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore.NetworkError, httpcore.TimeoutException) as error:
                failure = error
        assert failure is not None  # the guard gives at least one address
        raise failure

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class GuardedTransport(httpx.AsyncBaseTransport):
    """httpx's transport over a guarded pool. httpcore's errors come through as they are (NETWORK_ERRORS)."""

    def __init__(
        self,
        guard: AddressGuard,
        *,
        max_connections: int,
        ssl_context: ssl.SSLContext | None = None,
        inner: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl_context or httpx.create_ssl_context(trust_env=False),
            max_connections=max_connections,
            keepalive_expiry=5.0,
            network_backend=GuardedBackend(guard, inner),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        response = await self._pool.handle_async_request(
            httpcore.Request(request.method, url, headers=request.headers.raw, extensions=request.extensions)
        )
        return httpx.Response(
            response.status, headers=response.headers, stream=_Body(response), extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._response.aiter_stream():
            yield part

    async def aclose(self) -> None:
        await self._response.aclose()


def reason_of(error: BaseException) -> str:
    """Why a connection failed, in a few words that name no address."""
    link: BaseException | None = error
    while link is not None and not isinstance(link, EAServeError):
        reason = _reason(link)
        if reason is not None:
            return reason
        link = link.__cause__ or link.__context__
    if isinstance(error, (httpcore.TimeoutException, httpx.TimeoutException)):
        return "it did not answer in time"
    if isinstance(error, (httpcore.ProtocolError, httpx.ProtocolError)):
        return "its answer is cut short or no valid HTTP"
    return "the connection failed"


def _reason(error: BaseException) -> str | None:
    """What one link of a chain of errors says by itself."""
    match error:
        case httpx.InvalidURL():
            return "it redirects to what is no valid URL"
        case ssl.SSLCertVerificationError():
            return f"its TLS certificate is not valid ({error.verify_message})"
        case ssl.SSLError():
            return "TLS failed"
        case OSError(errno=int(number)) if number > 0:
            return os.strerror(number).lower()
    return None
