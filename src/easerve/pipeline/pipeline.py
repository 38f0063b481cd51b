"""A request's way from admission to its last token, and the one release path that every exit takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from easerve.errors import DeadlineExceeded, Overloaded
from easerve.pipeline.encode import EncodePool
from easerve.pipeline.generate import Assignment, GeneratePool
from easerve.pipeline.stages import Buffers, SequenceFailed, SequenceJob
from easerve.pipeline.timing import RequestTimes
from easerve.pipeline.together import all_or_nothing
from easerve.policy.admission import Admission
from easerve.request import EmbeddingRef, MediaItem, Request, TokenOutput

T = TypeVar("T")
Event = TokenOutput | SequenceFailed


@dataclass(frozen=True)
class Deadlines:
    """The longest any wait may last, in seconds. Each ends in DeadlineExceeded naming its stage."""

    encode: float = 120.0
    first_token: float = 120.0
    next_token: float = 60.0


class Pipeline:
    """Runs requests over the pools. One per server, on one event loop."""

    def __init__(
        self,
        *,
        encode: EncodePool,
        generate: GeneratePool,
        admission: Admission,
        buffers: Buffers,
        deadlines: Deadlines,
    ) -> None:
        self.encode_pool = encode
        self.generate_pool = generate
        self.admission = admission
        self._buffers = buffers
        self._deadlines = deadlines

    async def generate(self, request: Request, times: RequestTimes) -> AsyncGenerator[TokenOutput, None]:
        """Tokens of all `request.n` sequences as they come; sequence ids are "<request id>/<index>".

        Takes over the request's pixel buffers and releases them on every path. Closing the generator cancels the
        request at whatever stage it is. `times` is filled in along the way.
        """
        with ExitStack() as exits:
            for item in request.media:
                exits.callback(self._buffers.release, item.pixels)
            exits.enter_context(self._admitted())
            embeddings = await self._encode(request.media, times, exits)
            events: asyncio.Queue[Event] = asyncio.Queue()
            running = exits.enter_context(self._started(request, embeddings, events))
            while running:
                output = await self._next(events, times)
                _account(output, running, times)
                yield output

    async def check_health(self) -> None:
        """Raises Unavailable when no worker could serve even a text request."""
        self.generate_pool.check()

    def check_admission(self) -> None:
        """Raises Overloaded when a request would be shed now; the place itself is taken by `generate`."""
        if self.admission.full:
            raise self._shed()

    def _shed(self) -> Overloaded:
        limit = self.admission.limit
        return Overloaded(f"{limit} requests are in flight, the most this server takes; retry later", retry_after=1)

    @contextmanager
    def _admitted(self) -> Iterator[None]:
        if not self.admission.try_enter():
            raise self._shed()
        try:
            yield
        finally:
            self.admission.leave()

    async def _encode(self, items: Sequence[MediaItem], times: RequestTimes, exits: ExitStack) -> list[EmbeddingRef]:
        """All items at once; the first failure cancels the rest, and what had been encoded is released."""
        if not items:
            return []

        async def one(item: MediaItem) -> EmbeddingRef:
            embedding, spent = await self.encode_pool.encode(item)
            exits.callback(self.encode_pool.release, embedding)
            self._buffers.release(item.pixels)
            times.items.append(spent)
            return embedding

        return await _within(self._deadlines.encode, "encode", all_or_nothing([one(item) for item in items]))

    @contextmanager
    def _started(
        self, request: Request, embeddings: Sequence[EmbeddingRef], events: asyncio.Queue[Event]
    ) -> Iterator[dict[str, Assignment]]:
        """The request's sequences on their workers; those still there at the end are cancelled."""
        running: dict[str, Assignment] = {}
        media = tuple(zip(request.media, embeddings, strict=True))
        try:
            for index in range(request.n):
                sampling = msgspec.structs.replace(request.sampling, seed=request.sampling.seed + index)
                job = SequenceJob(f"{request.id}/{index}", request.prompt, sampling, media)
                running[job.sequence_id] = self.generate_pool.start(job, events.put_nowait)
            yield running
        finally:
            for assignment in running.values():
                assignment.end(cancel=True)

    async def _next(self, events: asyncio.Queue[Event], times: RequestTimes) -> TokenOutput:
        if not events.empty():
            event = events.get_nowait()
        elif times.first_token is None:
            event = await _within(self._deadlines.first_token, "prefill", events.get())
        else:
            event = await _within(self._deadlines.next_token, "decode", events.get())
        if isinstance(event, SequenceFailed):
            raise event.error
        return event


def _account(output: TokenOutput, running: dict[str, Assignment], times: RequestTimes) -> None:
    """Stamp times and keep the worker's load and the set of running sequences right."""
    now = asyncio.get_running_loop().time()
    if times.first_token is None:
        times.first_token = now
    times.last_token = now
    times.output_tokens += 1
    if output.times is not None:
        running[output.sequence_id].prefilled()
        times.prefill = times.prefill or output.times
    if output.finish_reason is not None:
        running.pop(output.sequence_id).end(cancel=False)


async def _within(seconds: float, stage: str, work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await work
    except TimeoutError:
        raise DeadlineExceeded(f"{stage} did not answer within {seconds:g} s") from None
