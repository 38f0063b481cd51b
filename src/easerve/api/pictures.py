"""The pictures of a request: where they come from, who holds their pixels until the pipeline does, and once more."""

from __future__ import annotations

from collections.abc import Sequence

from easerve.api.backend import Backend, PixelMemory
from easerve.api.schema import Message
from easerve.errors import NoRoom, Unavailable
from easerve.request import LaidPicture, TensorRef

Source = tuple[str, str]  # url, request field


class PixelBuffers:
    """The pixel buffers of one HTTP request, from their loading to handing them over."""

    def __init__(self, memory: PixelMemory) -> None:
        self._memory = memory
        self._refs: list[TensorRef] = []

    def hold(self, pictures: Sequence[LaidPicture]) -> None:
        """Take over their buffers."""
        self._refs += [picture.pixels for picture in pictures]

    def hand_over(self) -> None:
        """The pipeline owns them now."""
        self._refs.clear()

    def release(self) -> None:
        """Give back what has not been handed over."""
        while self._refs:
            self._memory.release(self._refs.pop())


def picture_sources(messages: Sequence[Message]) -> list[Source]:
    """Of every picture, in the order of the prompt."""
    return [
        (part.image_url.url, f"messages[{m}].content[{p}].image_url.url")
        for m, message in enumerate(messages)
        for p, part in enumerate(message.content or [])
        if part.type == "image_url" and part.image_url is not None
    ]


async def load(sources: Sequence[Source], backend: Backend) -> Sequence[LaidPicture]:
    """The pictures, in order; the caller owns their buffers. Where there is no room for them, the pipeline is asked to
    make some, once."""
    try:
        return await backend.media.load_all(sources)
    except NoRoom:
        backend.pipeline.make_room()
        return await backend.media.load_all(sources)


async def load_again(source: Source, key: str, backend: Backend) -> TensorRef:
    """The pixels of the picture with this content key. Raises Unavailable if its URL has another one by now."""
    [picture] = await load([source], backend)
    if picture.key == key:
        return picture.pixels
    backend.buffers.release(picture.pixels)
    raise Unavailable(
        f"{source[1]}: the picture had to be fetched again, and is another one now; send the request again",
        param=source[1],
    )
