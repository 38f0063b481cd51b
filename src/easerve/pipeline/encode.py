"""The encode pool: one shared queue in front of all encode workers.

Items of several requests share a batch, items of one request may be spread over workers, and each item succeeds or
fails alone. What becomes of an item that nobody waits for any more is released here.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

from msgspec.structs import replace

from easerve.errors import EAServeError, Overloaded, Unavailable, WorkerLost
from easerve.pipeline.observer import Observer
from easerve.pipeline.roster import Roster
from easerve.pipeline.stages import Buffers, EncodedBatch, EncodeStage
from easerve.pipeline.timing import ItemTimes
from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching import Batcher
from easerve.policy.placement import Load, Placement, sooner_elsewhere
from easerve.policy.rates import TokenRate
from easerve.policy.service import ServiceTime
from easerve.request import EmbeddingRef, MediaItem

MAX_ATTEMPTS = 5  # an item that so many workers died on is taken for the cause


@dataclass(eq=False)
class _Job:
    item: MediaItem
    submitted: float
    latest_start: float
    done: asyncio.Future[tuple[EmbeddingRef, ItemTimes]]
    ticket: int | None = None  # while queued
    attempts: int = 0


@dataclass(eq=False)
class _Member:
    stage: EncodeStage
    running_tokens: int = 0  # 0: idle
    rate: TokenRate = field(default_factory=TokenRate)

    @property
    def load(self) -> Load:
        return Load(self.running_tokens, self.rate.tokens_per_second)


@dataclass(frozen=True)
class EncodePolicy:
    """The decisions of the pool: when (`batcher`, fed by the two estimates) and where (`placement`)."""

    batcher: Batcher[_Job]
    arrivals: ArrivalRate
    service: ServiceTime
    placement: Placement
    max_queue: int = 4096  # items; more are shed


class EncodePool:
    """Feeds encode workers from one queue."""

    def __init__(self, policy: EncodePolicy, buffers: Buffers, observer: Observer) -> None:
        self._policy = policy
        self._batcher = policy.batcher
        self._buffers = buffers
        self._observer = observer
        self._roster: Roster[_Member] = Roster()  # the longest idle first
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add_worker(self, worker: EncodeStage) -> None:
        self._roster.add(worker.name, _Member(worker))
        self._count_workers()
        self._dispatch()

    def remove_worker(self, name: str, *, returns: bool) -> None:
        """Forget a worker. What runs on it fails through its own `encode`. The queue waits for one that `returns`;
        with none left and none to return, it fails."""
        if not self._roster.remove(name, returns=returns):
            return
        self._count_workers()
        if not self.staffed:
            for job in self._batcher.take_all():
                _fail(job, no_encoder())

    @property
    def staffed(self) -> bool:
        """Whether a worker is there or on its way back."""
        return self._roster.staffed

    @property
    def queue_length(self) -> int:
        return len(self._batcher)

    def expected_seconds(self) -> float:
        """What encoding one item alone takes, as far as is known."""
        return self._policy.service.predict(1)

    def loads(self) -> dict[str, Load]:
        return {name: member.load for name, member in self._roster.members.items()}

    async def encode(self, item: MediaItem, latest_start: float = math.inf) -> tuple[EmbeddingRef, ItemTimes]:
        """The embedding of one item; the caller owns its buffers. Cancelling drops the item, queued or running.

        Raises the item's own error, Overloaded when the queue is full, or Unavailable when no encode worker is left.
        """
        if not self.staffed:
            raise no_encoder()
        if len(self._batcher) >= self._policy.max_queue:
            raise Overloaded(f"{len(self._batcher)} media items wait for encode, the most there may", retry_after=1)
        loop = asyncio.get_running_loop()
        job = _Job(item, loop.time(), latest_start, loop.create_future())
        self._policy.arrivals.observe(job.submitted)
        self._enqueue(job)
        try:
            return await job.done
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def _count_workers(self) -> None:
        self._policy.arrivals.workers = max(1, len(self._roster.members))

    def _enqueue(self, job: _Job) -> None:
        now = asyncio.get_running_loop().time()
        job.ticket = self._batcher.push(job, now, job.item.tokens, job.latest_start)
        self._wake_at(now)

    def _wake_at(self, when: float) -> None:
        """Look at the queue then; at the earliest once everything that is already due has run, so that the items of
        one request are seen together."""
        if self._timer is not None and self._timer.when() <= when:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._dispatch)

    def _abandon(self, job: _Job) -> None:
        if job.ticket is not None:
            self._batcher.remove(job.ticket)
        elif job.done.done() and not job.done.cancelled() and job.done.exception() is None:
            self.release(job.done.result()[0])  # it arrived in the very turn of the loop that cancelled its reader

    def _dispatch(self) -> None:
        """Start every batch that is due, and set the timer for the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = asyncio.get_running_loop().time()
        while (member := self._next_worker()) is not None and (due := self._batcher.ready_at()) is not None:
            if due > now:
                self._wake_at(due)
                return
            self._start(member, self._batcher.take(now))

    def _next_worker(self) -> _Member | None:
        """An idle worker, or None if there is none, or if a busy one would be through with the queue's head sooner."""
        members = self._roster.members
        idle = {name: member.load for name, member in members.items() if not member.running_tokens}
        if not idle:
            return None
        tokens = self._batcher.head_tokens()
        name = self._policy.placement.choose(idle, tokens)
        busy = {other: member.load for other, member in members.items() if member.running_tokens}
        return None if sooner_elsewhere({**busy, name: idle[name]}, name, tokens) else members[name]

    def _start(self, member: _Member, jobs: list[_Job]) -> None:
        member.running_tokens = sum(job.item.tokens for job in jobs)
        for job in jobs:
            job.ticket = None
            job.attempts += 1
        task = asyncio.get_running_loop().create_task(self._run(member, jobs))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, member: _Member, jobs: list[_Job]) -> None:
        started = asyncio.get_running_loop().time()
        try:
            batch = await member.stage.encode([job.item for job in jobs])
        except WorkerLost as lost:
            for job in jobs:
                self._retry(job, lost)
        except EAServeError as error:
            for job in jobs:
                _fail(job, error)
        else:
            self._learn(member, jobs, batch.seconds)
            self._settle(member.stage, jobs, batch, started)
        finally:
            self._rest(member)
            self._dispatch()

    def _rest(self, member: _Member) -> None:
        member.running_tokens = 0
        members, name = self._roster.members, member.stage.name
        if members.get(name) is member:  # it may have been lost, and may have a successor
            members[name] = members.pop(name)

    def _learn(self, member: _Member, jobs: list[_Job], seconds: float) -> None:
        self._policy.service.observe(len(jobs), seconds)
        member.rate.observe(member.running_tokens, seconds)
        self._observer.batch_encoded(member.stage.name, len(jobs), member.running_tokens, seconds)

    def _settle(self, worker: EncodeStage, jobs: list[_Job], batch: EncodedBatch, started: float) -> None:
        if len(batch.results) != len(jobs):
            error = EAServeError(f"{worker.name} answered {len(jobs)} media items with {len(batch.results)} results")
            batch = EncodedBatch([*batch.results, *[error] * len(jobs)][: len(jobs)], batch.seconds)
        for job, result in zip(jobs, batch.results, strict=True):
            if isinstance(result, EAServeError):
                _fail(job, result)
            elif (wrong := _mismatch(job.item, result)) is not None:
                self.release(result)
                _fail(job, wrong)
            elif job.done.done():
                self.release(result)
            else:
                times = ItemTimes(started - job.submitted, batch.seconds, len(jobs), worker.name)
                job.done.set_result((replace(result, worker=worker.name), times))

    def _retry(self, job: _Job, lost: WorkerLost) -> None:
        if job.done.done():
            return
        if job.attempts >= MAX_ATTEMPTS or not self.staffed:
            _fail(job, lost)
        else:
            self._observer.redone("encode")
            self._enqueue(job)

    def release(self, embedding: EmbeddingRef) -> None:
        """Give back an embedding's buffers."""
        for ref in embedding.tensors.values():
            self._buffers.release(ref)


def _fail(job: _Job, error: EAServeError) -> None:
    if not job.done.done():
        job.done.set_exception(error)


def no_encoder() -> Unavailable:
    return Unavailable("no encode worker is alive; requests without media are still served", retry_after=5)


def _mismatch(item: MediaItem, embedding: EmbeddingRef) -> EAServeError | None:
    """An embedding must be the item's own and as long as the prompt expects."""
    if embedding.key != item.key:
        return EAServeError(f"encode answered item {item.key[:12]} with an embedding of {embedding.key[:12]}")
    if embedding.tokens != item.tokens:
        return EAServeError(
            f"item {item.key[:12]} was encoded to {embedding.tokens} tokens; its prompt has room for {item.tokens}"
        )
    return None
