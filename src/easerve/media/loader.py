"""Fetches and decodes the pictures of a request, in parallel and off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from easerve.errors import BadRequest, EAServeError
from easerve.media.addresses import AddressGuard
from easerve.media.decode import Pixels, decode
from easerve.media.fetch import Fetcher, inline, local, shorten
from easerve.media.options import MediaOptions

T = TypeVar("T")


@dataclass(frozen=True)
class LoadedPicture:
    """Decoded pixels (height, width, 3) uint8, and the seconds fetching and decoding took."""

    pixels: Pixels
    fetch_s: float
    decode_s: float


class MediaLoader:
    """One per server. Close it to end its threads and connections."""

    def __init__(self, options: MediaOptions, guard: AddressGuard | None = None) -> None:
        self._options = options
        self._fetcher = Fetcher(options, guard)
        self._threads = ThreadPoolExecutor(options.decode_threads, thread_name_prefix="media")

    async def load(self, url: str, param: str) -> LoadedPicture:
        """One picture. Errors name `param`, the request's field it came in."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            content = await self._content(url)
            fetched = loop.time()
            pixels = await self._in_thread(lambda: decode(content, self._options.max_pixels))
        except EAServeError as error:
            error.param = error.param or param
            raise
        return LoadedPicture(pixels, fetched - started, loop.time() - fetched)

    async def load_all(self, sources: Sequence[tuple[str, str]]) -> list[LoadedPicture]:
        """Pictures of (url, param) pairs, in order; the first error ends the others."""
        tasks = [asyncio.create_task(self.load(url, param)) for url, param in sources]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def aclose(self) -> None:
        await self._fetcher.aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _content(self, url: str) -> bytes:
        options = self._options
        match url.partition(":")[0].strip().lower():
            case "data":
                return await self._in_thread(lambda: inline(url, options.max_bytes))
            case "http" | "https":
                return await self._fetcher.fetch(url)
            case "file":
                return await self._in_thread(lambda: local(url, options.allowed_local_path, options.max_bytes))
            case scheme:
                raise BadRequest(f"{shorten(scheme, 20)!r} is no media URL scheme; use data:, https:, http: or file:")

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)
