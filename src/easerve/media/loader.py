"""Fetches and decodes the pictures of a request, in parallel and off the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from easerve.errors import BadRequest, EAServeError, Unavailable
from easerve.media.addresses import AddressGuard
from easerve.media.contents import shorten
from easerve.media.decode import Pixels, decode
from easerve.media.fetch import Fetcher
from easerve.media.inline import inline
from easerve.media.local import local
from easerve.media.options import MediaOptions
from easerve.pipeline.together import all_or_nothing

T = TypeVar("T")


@dataclass(frozen=True)
class LoadedPicture:
    """Decoded pixels (height, width, 3) uint8, and the seconds fetching and decoding took, waits included."""

    pixels: Pixels
    fetch_s: float
    decode_s: float


class MediaLoader:
    """One per server. Close it to end its threads and connections."""

    def __init__(
        self, options: MediaOptions, guard: AddressGuard | None = None, *, fetcher: Fetcher | None = None
    ) -> None:
        self._options = options
        self._fetcher = fetcher or Fetcher(options, guard)
        self._threads = ThreadPoolExecutor(options.decode_threads, thread_name_prefix="media")
        self._stops: set[threading.Event] = set()  # one per load under way
        self._closed = False

    async def load(self, url: str, *, param: str) -> LoadedPicture:
        """One picture. Errors (all the project's) name `param`, the request's field it came in.

        A cancelled load ends at once; its decoding thread ends with the next read or band.
        """
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        self._stops.add(stop)
        started = loop.time()
        try:
            content = await self._content(url)
            fetched = loop.time()
            pixels = await self._in_thread(lambda: decode(content, self._options, stop))
            return LoadedPicture(pixels, fetched - started, loop.time() - fetched)
        except EAServeError as error:
            raise self._named(error, param) from error
        finally:
            stop.set()
            self._stops.discard(stop)

    async def load_all(self, sources: Sequence[tuple[str, str]]) -> list[LoadedPicture]:
        """Pictures of (url, param) pairs, in order; the first error ends the others."""
        return await all_or_nothing([self.load(url, param=param) for url, param in sources])

    async def aclose(self) -> None:
        """End everything and wait for it; loads under way end with Unavailable."""
        self._closed = True
        for stop in self._stops:
            stop.set()
        await self._fetcher.aclose()
        await asyncio.to_thread(self._threads.shutdown)

    async def _content(self, url: str) -> bytes | bytearray:
        options = self._options
        scheme, colon, _ = url[:64].partition(":")
        match scheme.strip().lower() if colon else "":
            case "data":
                return await self._in_thread(lambda: inline(url, options.max_bytes))
            case "http" | "https":
                return await self._fetcher.fetch(url)
            case "file":
                return await self._in_thread(lambda: local(url, options.allowed_local_path, options.max_bytes))
            case "":
                raise BadRequest(f"{shorten(url, 40)} is no URL; write https://host/path or data:image/png;base64,...")
            case other:
                raise BadRequest(f"URLs of scheme {shorten(other, 20)} are not fetched; use https:, http: or data:")

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise Unavailable("the server is stopping")
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _named(self, error: EAServeError, param: str) -> EAServeError:
        if self._closed:
            return Unavailable("the server is stopping", param=param)
        return type(error)(f"{param}: {error.message}", param=param, code=error.code, retry_after=error.retry_after)
