"""Gets the bytes of a media URL: inline data, http(s) under guard, and local files below an allowed folder."""

from __future__ import annotations

import asyncio
import base64
import binascii
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import httpx

from easerve.errors import BadRequest, EAServeError, TooLarge
from easerve.media.addresses import AddressGuard
from easerve.media.options import MediaOptions

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXTUAL = ("text/", "application/json", "application/xhtml", "application/xml")


class Fetcher:
    """Fetches over the network, bounded in time, size, redirects and number at once."""

    def __init__(self, options: MediaOptions, guard: AddressGuard | None = None) -> None:
        self._options = options
        self._guard = guard or AddressGuard(options.allowed_domains)
        self._places = asyncio.Semaphore(options.max_downloads)
        self._client = httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=options.fetch_timeout_s)

    async def fetch(self, url: str) -> bytes:
        """The body at an http(s) URL. Raises BadRequest or TooLarge with the reason."""
        try:
            async with self._places, asyncio.timeout(self._options.fetch_timeout_s):
                return await self._follow(url)
        except TimeoutError:
            raise BadRequest(
                f"fetching {shorten(url)} took longer than {self._options.fetch_timeout_s:g} s; send the data inline"
            ) from None
        except EAServeError:
            raise
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise BadRequest(f"fetching {shorten(url)} failed: {str(error) or type(error).__name__}") from error

    async def _follow(self, url: str) -> bytes:
        for _ in range(self._options.max_redirects + 1):
            target = httpx.URL(url)
            if target.scheme not in {"http", "https"} or not target.host:
                raise BadRequest(f"{shorten(url)} is no http(s) URL with a host")
            body, location = await self._get(target)
            if location is None:
                return body
            url = str(target.join(location))
        raise BadRequest(f"{shorten(url)}: more than {self._options.max_redirects} redirects")

    async def _get(self, url: httpx.URL) -> tuple[bytes, str | None]:
        """Body, or where to go instead. The connection goes to the address that was judged; name and certificate
        stay the host's."""
        address = await self._guard.address_of(url.host, url.port or (443 if url.scheme == "https" else 80))
        request = self._client.build_request(
            "GET",
            url.copy_with(host=address),
            headers={"Host": url.netloc.decode(), "Accept": "image/*,*/*;q=0.5", "Accept-Encoding": "identity"},
            extensions={"sni_hostname": url.host},
        )
        response = await self._client.send(request, stream=True)
        try:
            if response.status_code in _REDIRECTS and "location" in response.headers:
                return b"", response.headers["location"]
            self._check(response, url)
            return await self._read(response, url), None
        finally:
            await response.aclose()

    def _check(self, response: httpx.Response, url: httpx.URL) -> None:
        if not response.is_success:
            raise BadRequest(f"fetching {shorten(str(url))} was answered with status {response.status_code}")
        kind = response.headers.get("content-type", "")
        if kind.startswith(_TEXTUAL):
            raise BadRequest(f"{shorten(str(url))} returned {kind.split(';')[0]}, not an image")
        if int(response.headers.get("content-length") or 0) > self._options.max_bytes:
            raise self._too_large(url)

    async def _read(self, response: httpx.Response, url: httpx.URL) -> bytes:
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > self._options.max_bytes:
                raise self._too_large(url)
        return bytes(body)

    def _too_large(self, url: httpx.URL) -> TooLarge:
        return TooLarge(f"{shorten(str(url))} is larger than {self._options.max_bytes} bytes, the most for one item")

    async def aclose(self) -> None:
        await self._client.aclose()


def inline(url: str, max_bytes: int) -> bytes:
    """The content of a data URI. Raises BadRequest if it is malformed."""
    header, comma, content = url.partition(",")
    if not comma:
        raise BadRequest("a data URI needs a comma between its type and its data: data:image/png;base64,...")
    if len(content) > 4 * max_bytes:
        raise TooLarge(f"inline data are larger than {max_bytes} bytes, the most for one item")
    if not header.lower().endswith(";base64"):
        return unquote_to_bytes(content)
    try:
        return base64.b64decode("".join(unquote(content).split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"a data URI's base64 is broken: {error}") from error


def local(url: str, allowed: Path | None, max_bytes: int) -> bytes:
    """The file of a file:// URL, if it lies below `allowed` once every link is followed."""
    if allowed is None:
        raise BadRequest(
            "file:// URLs are not allowed; the operator can permit a folder with --allowed-local-media-path"
        )
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"}:
        raise BadRequest(f"{shorten(url)} names a host; a file URL is file:///path")
    try:
        path = Path(unquote(parts.path)).resolve(strict=True)
        if not path.is_relative_to(allowed.resolve()) or not path.is_file():
            raise FileNotFoundError
        if path.stat().st_size > max_bytes:
            raise TooLarge(f"{shorten(url)} is larger than {max_bytes} bytes, the most for one item")
        return path.read_bytes()
    except (OSError, ValueError):
        raise BadRequest(f"{shorten(url)} is no readable file in the folder this server allows") from None


def shorten(text: str, most: int = 80) -> str:
    """For messages: a long value's beginning."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
