"""One answer on its way, over as many workers as it takes.

A sequence is prefilled, hands its KV to a decode worker where prefill and decode are apart, and starts over from its
prompt and the tokens it has produced when a worker is lost: its reader sees neither a gap nor a repeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from easerve.errors import EAServeError, NoRoom, TransferError, Unavailable, WorkerLost
from easerve.pipeline.media import Embedded, RequestMedia, main_encoder
from easerve.pipeline.observer import Observer, Where
from easerve.pipeline.pool import Assignment, Pool
from easerve.pipeline.stages import Buffers, GenerateStage, Prefilled, SequenceEvent, SequenceFailed, SequenceJob
from easerve.pipeline.timing import RequestTimes
from easerve.policy.prefix import BlockKeys
from easerve.request import KVRef, PrefillTimes, Request, TokenOutput

MAX_REDONE = 5  # a sequence that more workers died on is taken for the cause


@dataclass(frozen=True)
class Pools:
    """Where sequences run. `local` are the prefill workers beside an encoder; `decode` takes over from those that only
    prefill. A worker that does both is in two pools."""

    prefill: Pool
    local: Pool
    decode: Pool

    def for_prefill(self, where: Where) -> Pool:
        """The wanted pool, unless only the other has a worker there, or if neither has, one on its way back."""
        wanted, other = (self.local, self.prefill) if where == "local" else (self.prefill, self.local)
        return max(wanted, other, key=lambda pool: (pool.attended, pool.staffed))


@dataclass(frozen=True)
class Surroundings:
    """What every sequence of a request shares."""

    pools: Pools
    media: RequestMedia
    prompt: BlockKeys
    where: Where
    buffers: Buffers
    make_room: Callable[[], None]
    observer: Observer
    times: RequestTimes
    emit: Callable[[TokenOutput | SequenceFailed], None]


class SequenceRun:
    """One sequence of a request. `close` ends it, wherever it is."""

    def __init__(self, request: Request, index: int, around: Surroundings) -> None:
        self.id = f"{request.id}/{index}"
        self._prompt = request.prompt
        self._sampling = msgspec.structs.replace(request.sampling, seed=request.sampling.seed + index)
        self._around = around
        self._produced: list[int] = []
        self._redone = 0
        self._made_room = False
        self._stage = "prefill"  # or "decode": what its worker was started for
        self._carried: Embedded = ()  # what its prefill was given
        self._assignment: Assignment | None = None
        self._kv: KVRef | None = None  # on its way, ours to release
        self._kv_at = 0.0  # loop time at which it came
        self._placing: asyncio.Task[None] | None = None
        self._place(self._prefill)

    def close(self) -> None:
        """Cancel what runs and give back what it holds."""
        if self._placing is not None:
            self._placing.cancel()
        if self._assignment is not None:
            self._assignment.cancel()
            self._assignment = None
        self._drop_kv()

    def _place(self, work: Callable[[], Awaitable[None]]) -> None:
        """Look for a worker, which may have to be waited for."""

        async def guarded() -> None:
            try:
                await work()
            except EAServeError as error:
                self._around.emit(SequenceFailed(self.id, error))

        self._placing = asyncio.get_running_loop().create_task(guarded())

    async def _prefill(self) -> None:
        self._carried = await self._around.media.embedded()
        pools = self._around.pools
        pool = pools.for_prefill(self._around.where)
        preferred = main_encoder(self._carried) if pool is pools.local else ""
        try:
            stage = await pool.choose(len(self._prompt) + len(self._produced), preferred, self._around.prompt)
        except Unavailable:  # whoever was on its way back has been given up
            if pools.for_prefill(self._around.where) is pool:
                raise
            await self._prefill()
            return
        if not stage.decodes:
            pools.decode.check()  # before a token is out that nobody could follow up
        self._start(pool, stage, media=self._carried, hand_over=not stage.decodes)

    async def _decode(self) -> None:
        assert self._kv is not None
        pool = self._around.pools.decode
        stage = await pool.choose(pool.answers.expect(self._sampling.max_tokens - len(self._produced)))
        self._start(pool, stage, kv=self._kv)

    def _start(self, pool: Pool, stage: GenerateStage, **fields: Any) -> None:
        job = SequenceJob(
            sequence_id=self.id,
            prompt=self._prompt,
            sampling=self._sampling,
            produced=tuple(self._produced),
            **fields,
        )
        self._stage = "prefill" if job.kv is None else "decode"
        prompt = self._around.prompt if job.kv is None else None
        self._assignment = pool.start(stage, job, self._on_event, prompt)

    def _on_event(self, event: SequenceEvent) -> None:
        match event:
            case TokenOutput():
                self._token(event)
            case Prefilled(kv=kv):
                self._end_assignment()
                self._kv, self._kv_at = kv, asyncio.get_running_loop().time()
                self._place(self._decode)
            case SequenceFailed(error=error):
                self._end_assignment()
                self._failed(error)

    def _token(self, output: TokenOutput) -> None:
        assert self._assignment is not None
        self._produced.append(output.token_id)
        self._assignment.token(output, len(self._produced), asyncio.get_running_loop().time())
        if output.times is not None:
            self._first_of_worker(output.times)
        if output.finish_reason is not None:
            self._end_assignment()
        self._around.emit(output)

    def _first_of_worker(self, worker_times: PrefillTimes) -> None:
        times = self._around.times
        times.decode_worker = worker_times.worker
        self._around.observer.first_token(self._stage, worker_times)
        if self._stage == "decode" and self._kv is not None:
            times.hand_over = asyncio.get_running_loop().time() - self._kv_at
            self._around.observer.handed_over(self._kv.tensor.nbytes, times.hand_over)
            self._drop_kv()
            return
        times.prefill = times.prefill or worker_times
        self._around.media.prefilled()

    def _failed(self, error: EAServeError) -> None:
        """What was lost is done again; anything else is the end."""
        self._drop_kv()
        if not self._may_be_redone(error):
            self._around.emit(SequenceFailed(self.id, error))
            return
        self._around.observer.redone(self._stage)
        if isinstance(error, TransferError) and self._stage == "prefill":
            self._place(self._prefill_with_new_media)
        else:
            self._place(self._prefill)

    def _may_be_redone(self, error: EAServeError) -> bool:
        if isinstance(error, NoRoom):
            again, self._made_room = not self._made_room, True
            self._around.make_room()
            return again
        self._redone += 1
        return isinstance(error, WorkerLost | TransferError) and self._redone <= MAX_REDONE

    async def _prefill_with_new_media(self) -> None:
        await self._around.media.renew(self._carried)
        await self._prefill()

    def _end_assignment(self) -> None:
        """The worker has ended it by itself."""
        if self._assignment is not None:
            self._assignment.end()
            self._assignment = None

    def _drop_kv(self) -> None:
        if self._kv is not None:
            self._around.buffers.release(self._kv.tensor)
            self._kv = None
