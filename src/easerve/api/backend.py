"""What the HTTP layer stands on: the protocols of the parts it is given, and the bundle of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from easerve.api.options import ApiOptions
from easerve.api.service import ServedModel
from easerve.observe.metrics import RequestMetrics
from easerve.pipeline.timing import RequestTimes
from easerve.request import Request, TensorRef, TokenOutput

Pixels = NDArray[np.uint8]  # (height, width, 3) RGB


class PipelineLike(Protocol):
    """Runs requests."""

    def generate(self, request: Request, times: RequestTimes) -> AsyncGenerator[TokenOutput, None]:
        """Tokens as they come, of sequences named "<request id>/<index>".

        Owns the request's pixel buffers from the first step on. Raises the project's errors. Closing it cancels.
        """
        ...

    def check_admission(self) -> None:
        """Raises Overloaded when a request would be shed, so that nothing is fetched or decoded for it."""
        ...

    async def check_health(self) -> None:
        """Raises Unavailable when requests cannot be served."""
        ...


class BufferStore(Protocol):
    """Memory that workers can read. `put` may be called from any thread."""

    def put(self, array: np.ndarray[Any, Any]) -> TensorRef: ...

    def release(self, ref: TensorRef) -> None: ...


class Picture(Protocol):
    """A picture fetched and decoded, and the seconds that took."""

    @property
    def pixels(self) -> Pixels: ...

    @property
    def fetch_s(self) -> float: ...

    @property
    def decode_s(self) -> float: ...


class PictureLoader(Protocol):
    """Fetches and decodes pictures off the event loop."""

    async def load_all(self, sources: Sequence[tuple[str, str]], /) -> Sequence[Picture]:
        """The pictures of (url, request field) pairs, in order. Raises BadRequest or TooLarge naming the field."""
        ...


class ContentKey(Protocol):
    """Names decoded pixels: equal for equal pixels and salt."""

    def __call__(self, pixels: Pixels, salt: bytes, /) -> str: ...


@dataclass(frozen=True)
class Backend:
    """Everything a request needs."""

    model: ServedModel
    pipeline: PipelineLike
    buffers: BufferStore
    media: PictureLoader
    content_key: ContentKey
    metrics: RequestMetrics
    options: ApiOptions
