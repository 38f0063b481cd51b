"""The encode pool: one shared queue in front of all encode workers.

Items of several requests share a batch, items of one request may be spread over workers, and each item succeeds or
fails alone. What becomes of an item that nobody waits for any more is released here.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from easerve.errors import EAServeError, Overloaded, Unavailable, WorkerLost
from easerve.pipeline.alarm import Alarm
from easerve.pipeline.encode_job import EncodeJob
from easerve.pipeline.encode_workers import EncodeMember, EncodeRoster
from easerve.pipeline.observer import Observer
from easerve.pipeline.stages import Buffers, EncodedBatch, EncodeStage
from easerve.pipeline.timing import ItemTimes
from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching import Batcher
from easerve.policy.placement import Load, Placement
from easerve.policy.service import ServiceTime
from easerve.request import EmbeddingRef, MediaItem

MAX_ATTEMPTS = 5  # an item that so many workers died on is taken for the cause


@dataclass(frozen=True)
class EncodePolicy:
    """The decisions of the pool: when (`batcher`, fed by the two estimates) and where (`placement`)."""

    batcher: Batcher[EncodeJob]
    arrivals: ArrivalRate
    service: ServiceTime
    placement: Placement
    max_queue: int = 4096  # items; more are shed


class EncodePool:
    """Feeds encode workers from one queue."""

    def __init__(self, policy: EncodePolicy, buffers: Buffers, observer: Observer) -> None:
        self._policy = policy
        self._batcher = policy.batcher
        self.buffers = buffers
        self._observer = observer
        self._workers = EncodeRoster(policy.placement)
        self._running: set[asyncio.Task[None]] = set()
        self._alarm = Alarm(self._dispatch)

    def add_worker(self, worker: EncodeStage) -> None:
        self._workers.add(worker.name, EncodeMember(worker))
        self._count_workers()
        self._dispatch()

    def remove_worker(self, name: str, *, returns: bool) -> None:
        """Forget a worker. What runs on it fails through its own `encode`. The queue waits for one that `returns`;
        with none left and none to return, it fails."""
        if not self._workers.remove(name, returns=returns):
            return
        self._count_workers()
        if not self.staffed:
            for job in self._batcher.take_all():
                job.fail(no_encoder())

    @property
    def staffed(self) -> bool:
        """Whether a worker is there or on its way back."""
        return self._workers.staffed

    @property
    def queue_length(self) -> int:
        return len(self._batcher)

    def expected_seconds(self) -> float:
        """What encoding one item alone takes, as far as is known."""
        return self._policy.service.predict(1)

    def loads(self) -> dict[str, Load]:
        return self._workers.loads()

    async def encode(self, item: MediaItem, latest_start: float = math.inf) -> tuple[EmbeddingRef, ItemTimes]:
        """The embedding of one item; the caller owns its buffers. Cancelling drops the item, queued or running.

        Raises the item's own error, Overloaded when the queue is full, or Unavailable when no encode worker is left.
        """
        if not self.staffed:
            raise no_encoder()
        if len(self._batcher) >= self._policy.max_queue:
            raise Overloaded(f"{len(self._batcher)} media items wait for encode, the most there may", retry_after=1)
        loop = asyncio.get_running_loop()
        job = EncodeJob(item, loop.time(), latest_start, loop.create_future())
        self._policy.arrivals.observe(job.submitted)
        self._enqueue(job)
        try:
            return await job.done
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def _count_workers(self) -> None:
        self._policy.arrivals.workers = max(1, len(self._workers.members))

    def _enqueue(self, job: EncodeJob) -> None:
        now = asyncio.get_running_loop().time()
        job.ticket = self._batcher.push(job, now, job.item.tokens, job.latest_start)
        self._alarm.set(now)  # so that the items of one request are seen together

    def _abandon(self, job: EncodeJob) -> None:
        if job.ticket is not None:
            self._batcher.remove(job.ticket)
        elif (embedding := job.untaken) is not None:
            self.release(embedding)

    def _dispatch(self) -> None:
        """Start every batch that is due, and set the alarm for the next one."""
        self._alarm.off()
        now = asyncio.get_running_loop().time()
        batcher, workers = self._batcher, self._workers
        while (member := workers.next(batcher.head_tokens())) is not None and (due := batcher.ready_at()) is not None:
            if due > now:
                self._alarm.set(due)
                return
            self._start(member, batcher.take(now))

    def _start(self, member: EncodeMember, jobs: list[EncodeJob]) -> None:
        member.running_tokens = sum(job.item.tokens for job in jobs)
        for job in jobs:
            job.ticket = None
            job.attempts += 1
        task = asyncio.get_running_loop().create_task(self._run(member, jobs))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, member: EncodeMember, jobs: list[EncodeJob]) -> None:
        started = asyncio.get_running_loop().time()
        try:
            batch = await member.stage.encode([job.item for job in jobs])
        except WorkerLost as lost:
            for job in jobs:
                self._retry(job, lost)
        except EAServeError as error:
            for job in jobs:
                job.fail(error)
        else:
            self._learn(member, jobs, batch.seconds)
            self._settle(member.stage, jobs, batch, started)
        finally:
            self._workers.rest(member)
            self._dispatch()

    def _learn(self, member: EncodeMember, jobs: list[EncodeJob], seconds: float) -> None:
        self._policy.service.observe(len(jobs), seconds)
        member.rate.observe(member.running_tokens, seconds)
        self._observer.batch_encoded(member.stage.name, len(jobs), member.running_tokens, seconds)

    def _settle(self, worker: EncodeStage, jobs: list[EncodeJob], batch: EncodedBatch, started: float) -> None:
        if len(batch.results) != len(jobs):
            error = EAServeError(f"{worker.name} answered {len(jobs)} media items with {len(batch.results)} results")
            for surplus in batch.results[len(jobs) :]:
                if isinstance(surplus, EmbeddingRef):
                    self.release(surplus)
            batch = EncodedBatch([*batch.results, *[error] * len(jobs)][: len(jobs)], batch.seconds)
        for job, result in zip(jobs, batch.results, strict=True):
            times = ItemTimes(started - job.submitted, batch.seconds, len(jobs), worker.name)
            if (untaken := job.settle(result, times)) is not None:
                self.release(untaken)

    def _retry(self, job: EncodeJob, lost: WorkerLost) -> None:
        if job.done.done():
            return
        if job.attempts >= MAX_ATTEMPTS or not self.staffed:
            job.fail(lost)
        else:
            self._observer.redone("encode")
            self._enqueue(job)

    def release(self, embedding: EmbeddingRef) -> None:
        """Give back an embedding's buffers."""
        for ref in embedding.tensors.values():
            self.buffers.release(ref)


def no_encoder() -> Unavailable:
    return Unavailable("no encode worker is alive; requests without media are still served", retry_after=5)
