"""A request's way from admission to its last token, and the one release path that every exit takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from easerve.pipeline.cache import EmbeddingCache
from easerve.pipeline.deadline import Wait, Watch, overdue
from easerve.pipeline.door import Place
from easerve.pipeline.encode import EncodePool
from easerve.pipeline.media import Reload, RequestMedia
from easerve.pipeline.observer import Observer, Where
from easerve.pipeline.sequence import Pools, SequenceRun, Surroundings
from easerve.pipeline.stages import Buffers, SequenceFailed
from easerve.pipeline.timing import RequestTimes
from easerve.policy.admission import Admission
from easerve.policy.beginnings import BLOCK
from easerve.policy.offload import Offload
from easerve.policy.prefix import BlockKeys, Medium
from easerve.policy.slack import Slack
from easerve.request import Request, TokenOutput

Event = TokenOutput | SequenceFailed | Wait


@dataclass(frozen=True)
class Deadlines:
    """The longest any wait may last, in seconds. Each ends in DeadlineExceeded naming its stage."""

    encode: float = 120.0
    first_token: float = 120.0
    next_token: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Runs requests over the pools. One per server, on one event loop."""

    encode_pool: EncodePool
    pools: Pools
    cache: EmbeddingCache
    admission: Admission
    offload: Offload
    slack: Slack
    buffers: Buffers
    deadlines: Deadlines
    observer: Observer

    def admit(self) -> Place:
        """A place for one request, before anything is fetched for it. Raises Overloaded when all are taken."""
        return Place(self.admission)

    async def generate(
        self, request: Request, times: RequestTimes, place: Place | None = None, reload: Reload | None = None
    ) -> AsyncGenerator[TokenOutput, str | None]:
        """Tokens of all `request.n` sequences as they come; sequence ids are "<request id>/<index>". An id sent in ends
        that sequence.

        Takes over the request's `place` (taken here if it has none) and its pixel buffers, and gives them back on every
        path. `reload` lays pixels down again that went with a worker. Closing the generator cancels the request at
        whatever stage it is. `times` is filled in along the way.
        """
        times.answers = request.n
        with ExitStack() as exits:
            media = RequestMedia(request.media, self.cache, self.buffers, self.observer, reload)
            exits.callback(media.release)
            exits.callback((place or self.admit()).leave)
            await self._encode(media, times)
            events: asyncio.Queue[Event] = asyncio.Queue()
            around = Surroundings(
                self.pools,
                media,
                _named(request),
                self._route(request, media),
                self.buffers,
                self.make_room,
                self.observer,
                times,
                events.put_nowait,
            )
            watch = Watch(events.put_nowait)
            exits.callback(watch.close)
            running = exits.enter_context(_started(request, around))
            while running:
                output = await self._next(events, watch, times)
                if output.sequence_id not in running:
                    continue  # ended while this was on its way
                if isinstance(output, SequenceFailed):
                    raise output.error
                _stamp(times)
                if output.finish_reason is not None:
                    del running[output.sequence_id]
                    if not running:
                        self._finish(times)
                ended = yield output
                if ended in running:
                    running.pop(ended).close()

    async def check_health(self) -> None:
        """Raises Unavailable when no worker could serve even a text request."""
        self.pools.for_prefill("remote").check()
        self.pools.decode.check()

    def make_room(self) -> None:
        """Memory for tensors is short: give back what is held for nobody."""
        self.cache.make_room()

    async def _encode(self, media: RequestMedia, times: RequestTimes) -> None:
        if not media.items:
            return
        latest_start = self.slack.latest_start(times.received, self.encode_pool.expected_seconds())
        seconds = self.deadlines.encode
        try:
            async with asyncio.timeout(seconds):
                await media.fetch(latest_start)
        except TimeoutError:
            raise overdue("encode", seconds) from None
        for spent in media.times.values():
            times.items.append(spent)
            self.observer.item_encoded(spent)
        times.encoded = asyncio.get_running_loop().time()

    def _route(self, request: Request, media: RequestMedia) -> Where:
        """Local or remote prefill, once per request; text needs no encoder beside it."""
        if not media.items or not self.pools.local.staffed:
            return "remote"
        modality, tokens = request.media[0].modality, len(request.prompt)
        decided = self.offload.decide(modality, tokens)
        where: Where = "local" if self.pools.for_prefill(decided) is self.pools.local else "remote"
        self.offload.settle(modality, tokens, decided, where)
        self.observer.prefill_routed(where)
        return where

    async def _next(
        self, events: asyncio.Queue[Event], watch: Watch, times: RequestTimes
    ) -> TokenOutput | SequenceFailed:
        if times.first_token is None:
            watch.begin("prefill", self.deadlines.first_token)
        else:
            watch.begin("decode", self.deadlines.next_token)
        while True:
            event = await events.get()
            if not isinstance(event, Wait):
                watch.end()
                return event
            if event is watch.current:  # else what it waited for has come meanwhile
                raise overdue(event.stage, event.seconds)

    def _finish(self, times: RequestTimes) -> None:
        if times.encoded is not None and times.first_token is not None:
            self.slack.observe(times.first_token - times.encoded)
        self.observer.finished(times)


def _named(request: Request) -> BlockKeys:
    media = [Medium(item.offset, item.tokens, item.key) for item in request.media]
    return BlockKeys(request.prompt, media, BLOCK)


@contextmanager
def _started(request: Request, around: Surroundings) -> Iterator[dict[str, SequenceRun]]:
    """The request's sequences by id. Those still there at the end are closed."""
    runs = [SequenceRun(request, index, around) for index in range(request.n)]
    running = {run.id: run for run in runs}
    try:
        yield running
    finally:
        for run in running.values():
            run.close()


def _stamp(times: RequestTimes) -> None:
    times.last_token = asyncio.get_running_loop().time()
    if times.first_token is None:
        times.first_token = times.last_token
    times.output_tokens += 1
