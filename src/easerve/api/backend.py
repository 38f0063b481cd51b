"""What the HTTP layer stands on: the protocols of the parts it is given, and the bundle of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from easerve.api.options import ApiOptions
from easerve.api.service import ServedModel
from easerve.observe.metrics import RequestMetrics
from easerve.pipeline.door import Place
from easerve.pipeline.media import Reload
from easerve.pipeline.timing import RequestTimes
from easerve.request import LaidPicture, Request, TensorRef, TokenOutput


class PipelineLike(Protocol):
    """Runs requests."""

    def admit(self) -> Place:
        """A place for one request, before anything is fetched for it. Raises Overloaded when all are taken."""
        ...

    def generate(
        self, request: Request, times: RequestTimes, place: Place, reload: Reload
    ) -> AsyncGenerator[TokenOutput, str | None]:
        """Tokens as they come, of sequences named "<request id>/<index>". An id sent in ends that sequence.

        Owns the request's place and pixel buffers from the first step on; `reload` lays pixels down again. Raises the
        project's errors. Closing it cancels.
        """
        ...

    def make_room(self) -> None:
        """Memory for tensors is short: give back what is held for nobody."""
        ...

    async def check_health(self) -> None:
        """Raises Unavailable when requests cannot be served."""
        ...


class PixelMemory(Protocol):
    """Where pictures lie until they are encoded."""

    def release(self, ref: TensorRef, /) -> None: ...


class PictureLoader(Protocol):
    """Fetches, decodes and lays down pictures, here or elsewhere, off the event loop."""

    async def load_all(self, sources: Sequence[tuple[str, str]], /) -> Sequence[LaidPicture]:
        """The pictures of (url, request field) pairs, in order; the caller owns their buffers.

        All or nothing, also when cancelled. Raises BadRequest or TooLarge naming the field, or Unavailable.
        """
        ...


@dataclass(frozen=True)
class Backend:
    """Everything a request needs."""

    model: ServedModel
    pipeline: PipelineLike
    buffers: PixelMemory
    media: PictureLoader
    metrics: RequestMetrics
    options: ApiOptions
