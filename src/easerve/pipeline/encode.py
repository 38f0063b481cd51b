"""The encode pool: one shared queue in front of all encode workers.

Items of several requests share a batch, items of one request may be spread over workers, and each item succeeds or
fails alone. What becomes of an item that nobody waits for any more is released here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from easerve.errors import EAServeError, Unavailable, WorkerLost
from easerve.pipeline.stages import Buffers, EncodedBatch, EncodeStage
from easerve.pipeline.timing import ItemTimes
from easerve.policy.batching import Batcher
from easerve.request import EmbeddingRef, MediaItem

MAX_ATTEMPTS = 3  # an item that three workers died on is taken for the cause


@dataclass(eq=False)
class _Job:
    item: MediaItem
    submitted: float
    done: asyncio.Future[tuple[EmbeddingRef, ItemTimes]]
    ticket: int | None = None  # while queued
    attempts: int = 0


class EncodePool:
    """Feeds encode workers from one queue, as the batcher decides."""

    def __init__(self, batcher: Batcher[_Job], buffers: Buffers) -> None:
        self._batcher = batcher
        self._buffers = buffers
        self._workers: dict[str, EncodeStage] = {}
        self._idle: dict[str, None] = {}  # ordered: the longest idle worker first
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add_worker(self, worker: EncodeStage) -> None:
        self._workers[worker.name] = worker
        self._idle[worker.name] = None
        self._dispatch()

    def remove_worker(self, name: str) -> None:
        """Forget a worker. What runs on it fails through its own `encode`; with none left, the queue fails."""
        self._workers.pop(name, None)
        self._idle.pop(name, None)
        if not self._workers:
            for job in self._batcher.take_all():
                _fail(job, _no_encoder())

    @property
    def queue_length(self) -> int:
        return len(self._batcher)

    async def encode(self, item: MediaItem) -> tuple[EmbeddingRef, ItemTimes]:
        """The embedding of one item; the caller owns its buffers. Cancelling drops the item, queued or running.

        Raises the item's own error, or Unavailable when no encode worker is left.
        """
        if not self._workers:
            raise _no_encoder()
        loop = asyncio.get_running_loop()
        job = _Job(item, loop.time(), loop.create_future())
        self._enqueue(job)
        try:
            return await job.done
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def _enqueue(self, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        job.ticket = self._batcher.push(job, loop.time())
        self._wake_at(loop.time())

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
        while self._idle and (due := self._batcher.ready_at()) is not None:
            if due > asyncio.get_running_loop().time():
                self._wake_at(due)
                return
            self._start(self._batcher.take())

    def _start(self, jobs: list[_Job]) -> None:
        name = next(iter(self._idle))
        del self._idle[name]
        for job in jobs:
            job.ticket = None
            job.attempts += 1
        task = asyncio.get_running_loop().create_task(self._run(self._workers[name], jobs))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _run(self, worker: EncodeStage, jobs: list[_Job]) -> None:
        started = asyncio.get_running_loop().time()
        try:
            batch = await worker.encode([job.item for job in jobs])
        except WorkerLost as lost:
            for job in jobs:
                self._retry(job, lost)
        except EAServeError as error:
            for job in jobs:
                _fail(job, error)
        else:
            self._settle(worker, jobs, batch, started)
        finally:
            if worker.name in self._workers:
                self._idle[worker.name] = None
            self._dispatch()

    def _settle(self, worker: EncodeStage, jobs: list[_Job], batch: EncodedBatch, started: float) -> None:
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
                job.done.set_result((result, times))

    def _retry(self, job: _Job, lost: WorkerLost) -> None:
        if job.done.done():
            return
        if job.attempts >= MAX_ATTEMPTS or not self._workers:
            _fail(job, lost)
        else:
            self._enqueue(job)

    def release(self, embedding: EmbeddingRef) -> None:
        """Give back an embedding's buffers."""
        for ref in embedding.tensors.values():
            self._buffers.release(ref)


def _fail(job: _Job, error: EAServeError) -> None:
    if not job.done.done():
        job.done.set_exception(error)


def _no_encoder() -> Unavailable:
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
