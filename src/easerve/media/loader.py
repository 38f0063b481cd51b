"""Fetches and decodes pictures, off the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from easerve.errors import BadRequest, EAServeError, Unavailable
from easerve.media.addresses import AddressGuard
from easerve.media.contents import shorten
from easerve.media.decode import Pixels, decode
from easerve.media.fetch import Fetcher
from easerve.media.inline import inline
from easerve.media.local import local
from easerve.media.options import MediaOptions

T = TypeVar("T")


@dataclass(frozen=True)
class Loaded(Generic[T]):
    """What was made of a picture, and the seconds fetching and making it took, waits included."""

    made: T
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

    async def load(self, url: str, *, param: str) -> Loaded[Pixels]:
        """The pixels of one picture, (height, width, 3) uint8; else like `load_as`."""
        return await self.load_as(lambda pixels: pixels, url, param=param)

    async def load_as(
        self, make: Callable[[Pixels], T], url: str, *, param: str, drop: Callable[[T], None] | None = None
    ) -> Loaded[T]:
        """What `make` makes of a picture in the thread that decoded it. The project's errors name `param`, the
        request's field it came in.

        A cancelled load ends at once; its decoding thread ends with the next read or band. What it has made by then
        goes to `drop`, in any thread.
        """
        now = asyncio.get_running_loop().time
        stop = threading.Event()
        self._stops.add(stop)
        started = now()
        try:
            read = await self._reader(url)
            ready = now()

            def work() -> Loaded[T]:
                began = now()
                content = read()
                reading = now() - began
                made = make(decode(content, self._options, stop))
                return Loaded(made, ready - started + reading, now() - ready - reading)

            return await self._in_thread(work, drop)
        except EAServeError as error:
            raise self._named(error, param) from error
        finally:
            stop.set()
            self._stops.discard(stop)

    async def aclose(self) -> None:
        """End everything and wait for it; loads under way end with Unavailable."""
        self._closed = True
        for stop in self._stops:
            stop.set()
        await self._fetcher.aclose()
        await asyncio.to_thread(self._threads.shutdown)

    async def _reader(self, url: str) -> Callable[[], bytes | bytearray]:
        """What gives the content at `url` in the thread that decodes it. What comes over a network is here first."""
        options = self._options
        scheme, colon, _ = url[:64].partition(":")
        match scheme.strip().lower() if colon else "":
            case "data":
                return lambda: inline(url, options.max_bytes)
            case "http" | "https":
                content = await self._fetcher.fetch(url)
                return lambda: content
            case "file":
                return lambda: local(url, options.allowed_local_path, options.max_bytes)
            case "":
                raise BadRequest(f"{shorten(url, 40)} is no URL; write https://host/path or data:image/png;base64,...")
            case other:
                raise BadRequest(f"URLs of scheme {shorten(other, 20)} are not fetched; use https:, http: or data:")

    async def _in_thread(self, work: Callable[[], Loaded[T]], drop: Callable[[T], None] | None) -> Loaded[T]:
        if self._closed:
            raise Unavailable("the server is stopping")
        job = self._threads.submit(work)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            if drop is not None:
                job.add_done_callback(lambda done: _dropped(done, drop))
            raise

    def _named(self, error: EAServeError, param: str) -> EAServeError:
        if self._closed:
            return Unavailable("the server is stopping", param=param)
        return type(error)(f"{param}: {error.message}", param=param, code=error.code, retry_after=error.retry_after)


def _dropped(job: Future[Loaded[T]], drop: Callable[[T], None]) -> None:
    if not job.cancelled() and job.exception() is None:
        drop(job.result().made)
