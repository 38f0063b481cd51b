"""Downloads http(s) media: bounded in time, size, redirects and number at once, through the address guard."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpcore
import httpx

from easerve import __version__
from easerve.errors import BadRequest, Overloaded, TooLarge, Unavailable
from easerve.media.addresses import AddressGuard
from easerve.media.contents import SUPPORTED, refused_type, shorten
from easerve.media.network import NETWORK_ERRORS, GuardedTransport, reason_of
from easerve.media.options import MediaOptions

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_HEADERS = {
    "User-Agent": f"EAServe/{__version__}",  # some hosts answer nobody who has no name
    "Accept": "image/*,*/*;q=0.5",
    "Accept-Encoding": "identity",  # pictures are compressed already, and what is not packed cannot burst
}


class Fetcher:
    """One per server. `ssl_context` and `inner` (which opens sockets) are for tests and private authorities."""

    def __init__(
        self,
        options: MediaOptions,
        guard: AddressGuard | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        inner: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._options = options
        guard = guard or AddressGuard(options.allowed_domains)
        self._places = asyncio.Semaphore(options.max_downloads)
        self._client = httpx.AsyncClient(
            transport=GuardedTransport(
                guard, max_connections=options.max_downloads, ssl_context=ssl_context, inner=inner
            ),
            headers=_HEADERS,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # keep none: clients share this
            follow_redirects=False,
            timeout=None,  # one clock for the whole download instead
            trust_env=False,
        )

    async def fetch(self, url: str) -> bytearray:
        """The body at an http(s) URL.

        Raises BadRequest with the reason, TooLarge, and Overloaded when no place came free in `fetch_timeout_s`.
        """
        async with self._place():
            try:
                async with asyncio.timeout(self._options.fetch_timeout_s):
                    return await self._follow(_parsed(url))
            except TimeoutError:
                raise BadRequest(
                    f"fetching from {_host_of(url)} took longer than {self._options.fetch_timeout_s:g} s; use a faster "
                    "host or send the picture as a data: URI"
                ) from None
            except RuntimeError as error:  # httpx's word for a client that was closed meanwhile
                if not self._client.is_closed:
                    raise
                raise Unavailable("the server is stopping") from error

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        wait = self._options.fetch_timeout_s
        try:
            async with asyncio.timeout(wait):
                await self._places.acquire()
        except TimeoutError:
            raise Overloaded("too many downloads are under way; try again later", retry_after=wait) from None
        try:
            yield
        finally:
            self._places.release()

    async def _follow(self, url: httpx.URL) -> bytearray:
        for _ in range(self._options.max_redirects + 1):
            try:
                body, location = await self._get(url)
            except NETWORK_ERRORS as error:
                if isinstance(error, TimeoutError):
                    raise
                raise BadRequest(f"fetching from {_host(url)} failed: {reason_of(error)}; check the URL") from error
            if body is not None:
                return body
            url = _target(url, location)
        most = self._options.max_redirects
        raise BadRequest(f"{_host(url)} ends a chain of more than {most} redirects; use the final URL")

    async def _get(self, url: httpx.URL) -> tuple[bytearray | None, str]:
        """The body, or None and where to go instead."""
        async with self._client.stream("GET", url) as response:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                return None, response.headers["location"]
            self._check(response, url)
            return await self._read(response, url), ""

    def _check(self, response: httpx.Response, url: httpx.URL) -> None:
        if not response.is_success:
            raise BadRequest(f"{_host(url)} answered with status {response.status_code}; check the URL")
        wrong = refused_type(response.headers.get("content-type", ""))
        if wrong:
            raise BadRequest(f"{_host(url)} sent {wrong}, not a picture; use the picture's own URL; {SUPPORTED}")
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {"", "identity"}:
            raise BadRequest(f"{_host(url)} sent {shorten(encoding, 20)}-encoded data unasked; send a data: URI")
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > self._options.max_bytes:
            raise self._too_large(url)

    async def _read(self, response: httpx.Response, url: httpx.URL) -> bytearray:
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > self._options.max_bytes:
                raise self._too_large(url)
        return body

    def _too_large(self, url: httpx.URL) -> TooLarge:
        most = self._options.max_bytes
        return TooLarge(f"the file at {_host(url)} is larger than {most} bytes, the most for one item; scale it down")

    async def aclose(self) -> None:
        """Close all connections; downloads under way end with an error."""
        await self._client.aclose()


def _parsed(url: str) -> httpx.URL:
    try:
        return _with_host(httpx.URL(url.strip()))
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise BadRequest(f"{shorten(url)} is no valid URL; write https://host/path") from error


def _target(url: httpx.URL, location: str) -> httpx.URL:
    try:
        target = url.join(location)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise BadRequest(f"{_host(url)} redirects to what is no valid URL; use the final URL") from error
    if target.scheme not in {"http", "https"}:
        scheme = shorten(target.scheme, 20)
        raise BadRequest(f"{_host(url)} redirects to a {scheme} URL; only http and https are followed")
    return _with_host(target)


def _with_host(url: httpx.URL) -> httpx.URL:
    if not url.host:
        raise BadRequest(f"{shorten(str(url))} names no host; write https://host/path")
    return url


def _host(url: httpx.URL) -> str:
    """A URL in messages: its host alone, for the rest may hold passwords and signatures."""
    return f"host {shorten(url.host)}"


def _host_of(url: str) -> str:
    return _host(_parsed(url))
