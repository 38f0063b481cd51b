"""The benchmark's way into a virtual server: its generator, workloads and report, without HTTP and pictures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from itertools import count

from easerve.api.timing import timing_object
from easerve.bench.drawing import SKETCHED, Draw
from easerve.bench.lag import LoopLag, NoLag
from easerve.bench.record import Record
from easerve.bench.request import Request as BenchRequest
from easerve.bench.workers import Busy, Utilisation, watched
from easerve.errors import BadRequest, EAServeError
from easerve.pipeline.timing import RequestTimes
from easerve.request import MediaItem, Request, SamplingParams
from easerve.simulate.requests import Item, Sizes, sizes
from easerve.simulate.server import VirtualServer


@dataclass(frozen=True)
class Prepared:
    sizes: Sizes
    modality: str


class VirtualWire:
    """Implements the benchmark's `Wire`. Every failure is named as it would be over HTTP."""

    draw: Draw = SKETCHED
    lag: type[LoopLag] = NoLag

    def __init__(self, server: VirtualServer, timeout: float) -> None:
        self._server = server
        self._timeout = timeout
        self._numbers = count()

    def prepare(self, request: BenchRequest) -> Prepared:
        return Prepared(sizes(request, self._server.world.text), request.modality)

    async def send(self, prepared: Prepared, index: int, scheduled: float, now: Callable[[], float]) -> Record:
        record = Record(index, prepared.modality, len(prepared.sizes.media), scheduled, now())
        loop = asyncio.get_running_loop()
        times = RequestTimes(loop.time())
        try:
            await self._server.front_end.take_in(prepared.sizes.media)
            request = self._request(prepared.sizes)
            record.prompt_tokens = len(request.prompt)
            answer = self._server.pipeline.generate(request, times)
            async with asyncio.timeout(self._timeout), aclosing(answer) as tokens:
                async for _ in tokens:
                    await self._server.front_end.pass_on()
                    record.tokens.append(now())
        except EAServeError as error:
            record.error = "error in stream" if record.tokens else f"http {error.status}"
            record.message = error.message
        except TimeoutError:
            record.error = "timeout"
        record.chunks = record.tokens
        record.output_tokens = len(record.tokens)
        record.timing = timing_object(times, loop.time())
        record.ended = now()
        return record

    def watched(self) -> AbstractAsyncContextManager[Utilisation]:
        return watched(self._busy)

    async def _busy(self) -> Busy:
        return self._server.busy()

    def _request(self, wanted: Sizes) -> Request:
        """Media before text, as the workloads have them. Raises BadRequest for too many, and for such as the model does
        not take."""
        limit = self._server.deployment.limit_images
        if len(wanted.media) > limit:
            raise BadRequest(f"the messages hold {len(wanted.media)} media items, the limit is {limit} per prompt")
        media: list[MediaItem] = []
        offset = 0
        for one in wanted.media:
            media.append(self._item(one, offset))
            offset += media[-1].tokens
        return Request(
            id=f"virtual-{next(self._numbers)}",
            prompt=(0,) * (offset + wanted.text_tokens),
            media=tuple(media),
            sampling=SamplingParams(max_tokens=wanted.output_tokens, ignore_eos=True),
        )

    def _item(self, one: Item, offset: int) -> MediaItem:
        return MediaItem(
            key=one.key,
            modality=one.modality,
            height=one.height,
            width=one.width,
            tokens=self._server.world.item(one).tokens,
            offset=offset,
            pixels=self._server.memory.put("front-end", 3 * one.height * one.width),
        )
