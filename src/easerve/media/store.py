"""From URLs to pictures that workers can read: decoded, named by content and laid down, all of a request or none.

Runs wherever media are decoded, in the front end or in an encode worker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from easerve.media.decode import Pixels
from easerve.media.fingerprint import content_key
from easerve.media.loader import MediaLoader
from easerve.pipeline.together import all_or_nothing
from easerve.request import LaidPicture, TensorRef


class Arrays(Protocol):
    """Memory that workers can read. Used from any thread."""

    def put(self, array: Pixels, /) -> TensorRef: ...

    def release(self, ref: TensorRef, /) -> None: ...


class PictureStore:
    """Loads pictures into `arrays`; `salt` is the part of content keys that is not pixels."""

    def __init__(self, loader: MediaLoader, arrays: Arrays, salt: bytes) -> None:
        self._loader = loader
        self._arrays = arrays
        self._salt = salt

    async def load_all(self, sources: Sequence[tuple[str, str]]) -> list[LaidPicture]:
        """Pictures of (url, param) pairs, in order; the caller owns their buffers.

        The first error ends the others. After an error or a cancel nothing stays laid down, not even by a thread that
        is still at it then. Errors are those of `MediaLoader.load_as` and of the memory.
        """
        return await all_laid(self._load, sources, self._arrays.release)

    async def _load(self, url: str, param: str) -> LaidPicture:
        loaded = await self._loader.load_as(self._lay, url, param=param, drop=self._drop)
        key, pixels = loaded.made
        height, width, _ = pixels.shape
        return LaidPicture(
            key=key, height=height, width=width, pixels=pixels, fetch_s=loaded.fetch_s, decode_s=loaded.decode_s
        )

    def _lay(self, pixels: Pixels) -> tuple[str, TensorRef]:
        return content_key(pixels, self._salt), self._arrays.put(pixels)

    def _drop(self, laid: tuple[str, TensorRef]) -> None:
        self._arrays.release(laid[1])


async def all_laid(
    load: Callable[[str, str], Awaitable[LaidPicture]],
    sources: Sequence[tuple[str, str]],
    release: Callable[[TensorRef], None],
) -> list[LaidPicture]:
    """What `load` makes of each (url, param), in order; if one fails or this is cancelled, all others are released."""
    laid: list[LaidPicture] = []

    async def one(url: str, param: str) -> LaidPicture:
        picture = await load(url, param)
        laid.append(picture)
        return picture

    try:
        return await all_or_nothing([one(url, param) for url, param in sources])
    except BaseException:
        for picture in laid:
            release(picture.pixels)
        raise
