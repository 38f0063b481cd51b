"""Stand-ins for workers and memory that know what they hold, so that a leak or a mix-up shows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from easerve.errors import EAServeError, NoRoom, TransferError, WorkerLost
from easerve.pipeline.cache import EmbeddingCache
from easerve.pipeline.encode import EncodePolicy, EncodePool
from easerve.pipeline.observer import Observer
from easerve.pipeline.pipeline import Deadlines, Pipeline
from easerve.pipeline.pool import Pool
from easerve.pipeline.sequence import Pools
from easerve.pipeline.stages import EncodedBatch, Prefilled, SequenceEvent, SequenceFailed, SequenceJob, Sink
from easerve.pipeline.timing import RequestTimes
from easerve.policy.admission import Admission
from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching import Batcher, BatchOptions, make_rule
from easerve.policy.cache import ByteLRU
from easerve.policy.offload import make_offload
from easerve.policy.placement import LeastPending
from easerve.policy.service import ServiceTime
from easerve.policy.slack import Slack
from easerve.request import (
    EmbeddingRef,
    KVRef,
    MediaItem,
    PrefillTimes,
    Request,
    SamplingParams,
    TensorRef,
    TokenOutput,
)


class Memory:
    """Buffers by name; what is left at the end leaked. `survives_owner` as of shared memory, or not as of others.

    It holds `capacity` buffers, pixels of requests made by a test not counted.
    """

    def __init__(self, *, survives_owner: bool = True) -> None:
        self.held: set[str] = set()
        self.survives_owner = survives_owner
        self.capacity = math.inf
        self._count = 0

    def put(self, name: str) -> TensorRef:
        self._count += 1
        if name != "pixels" and len(self.of(lambda held: not held.startswith("pixels"))) >= self.capacity:
            raise NoRoom(f"no room for {name}")
        ref = TensorRef(f"{name}-{self._count}", (1,), "uint8", 1)
        self.held.add(ref.name)
        return ref

    def release(self, ref: TensorRef) -> None:
        self.held.discard(ref.name)

    def of(self, kind: Callable[[str], bool]) -> list[str]:
        """Names of what is held of a kind, in order."""
        return sorted(filter(kind, self.held))


class FakeEncoder:
    """Encodes an item to its own key, after `delay`; items whose key starts with "bad" fail."""

    def __init__(self, name: str, memory: Memory, delay: float = 0.0) -> None:
        self.name = name
        self.batches: list[list[str]] = []
        self._memory = memory
        self.delay = delay
        self.fault: Callable[[Sequence[MediaItem]], EAServeError | None] = lambda items: None

    async def encode(self, items: Sequence[MediaItem]) -> EncodedBatch:
        self.batches.append([item.key for item in items])
        await asyncio.sleep(self.delay)
        if (error := self.fault(items)) is not None:
            raise error
        return EncodedBatch([self._one(item) for item in items], self.delay)

    def _one(self, item: MediaItem) -> EmbeddingRef | EAServeError:
        if item.key.startswith("bad"):
            return EAServeError(f"cannot encode {item.key}")
        if item.pixels.name not in self._memory.held:
            return TransferError(f"buffer {item.pixels.name} is gone")
        try:
            return EmbeddingRef(key=item.key, tokens=item.tokens, tensors={"values": self._memory.put(item.key)})
        except NoRoom as error:
            return error


class FakeGenerator:
    """Answers with one token per media item, its number in the key, then ends; checks what it is given.

    It prefills, decodes, or does both; `die` loses everything that runs on it.
    """

    def __init__(self, name: str, memory: Memory, delay: float = 0.0, *, decodes: bool = True) -> None:
        self.name = name
        self.decodes = decodes
        self.cancelled: list[str] = []
        self.started: list[SequenceJob] = []
        self.running: dict[str, tuple[asyncio.Task[None], Sink]] = {}
        self._memory = memory
        self.delay = delay  # before each token

    def start(self, job: SequenceJob, sink: Sink) -> None:
        self.started.append(job)
        assert job.hand_over != self.decodes
        self.running[job.sequence_id] = asyncio.get_running_loop().create_task(self._run(job, sink)), sink

    def cancel(self, sequence_id: str) -> None:
        self.cancelled.append(sequence_id)
        if sequence_id in self.running:
            self.running.pop(sequence_id)[0].cancel()

    def die(self) -> None:
        running, self.running = self.running, {}
        for sequence_id, (task, sink) in running.items():
            task.cancel()
            sink(SequenceFailed(sequence_id, WorkerLost(f"worker {self.name} died")))

    async def _run(self, job: SequenceJob, sink: Sink) -> None:
        if (missing := self._missing(job)) is not None:
            self._end(sink, SequenceFailed(job.sequence_id, TransferError(f"buffer {missing} is gone")))
            return
        tokens = _tokens(job)[len(job.produced) :]
        for index, token in enumerate(tokens):
            await asyncio.sleep(self.delay)
            times = PrefillTimes(0.0, 0.0, self.delay, self.name) if index == 0 else None
            output = TokenOutput(sequence_id=job.sequence_id, token_id=token, times=times)
            if index == len(tokens) - 1:
                self._end(sink, replace(output, finish_reason="stop"))
                return
            sink(output)
            if job.hand_over:
                self._end(sink, self._handed_over(job))
                return

    def _handed_over(self, job: SequenceJob) -> SequenceEvent:
        try:
            tensor = self._memory.put(_kv_name(job))
        except NoRoom as error:
            return SequenceFailed(job.sequence_id, error)
        return Prefilled(job.sequence_id, KVRef(tokens=len(job.prompt), next_position=0, tensor=tensor))

    def _end(self, sink: Sink, event: SequenceEvent) -> None:
        del self.running[event.sequence_id]
        sink(event)

    def _missing(self, job: SequenceJob) -> str | None:
        """The name of a buffer that is not there; mix-ups are caught here too."""
        for item, embedding in job.media:
            assert item.key == embedding.key
            if embedding.tensors["values"].name not in self._memory.held:
                return embedding.tensors["values"].name
        if job.kv is not None:
            assert job.kv.tensor.name.startswith(_kv_name(job)), "the KV of another sequence"
            if job.kv.tensor.name not in self._memory.held:
                return job.kv.tensor.name
        return None


def _kv_name(job: SequenceJob) -> str:
    return f"kv:{','.join(map(str, job.prompt))}:"


def _tokens(job: SequenceJob) -> list[int]:
    """What a job answers is written in its prompt, so that a decode worker knows without media."""
    return list(job.prompt[1:])[: job.sampling.max_tokens] or [0]


class World:
    """A pipeline over doubles. With `apart`, prefill and decode are; with `local`, the encoders can prefill too."""

    def __init__(
        self,
        *,
        encoders: int = 1,
        generators: int = 1,
        apart: bool = False,
        local: bool = False,
        delay: float = 0.0,
        bound: int = 4,
        limit: int = 1000,
        cache_bytes: int = 0,
        survives_owner: bool = True,
        remote_ratio: float = 0.5,
        max_queue: int = 1000,
        rule: str = "greedy",
        age_cap: float = 0.05,
        slo_ttft: float | None = None,
    ) -> None:
        self._delay = delay
        self.reloading = 0  # items whose pixels are being had again
        self.memory = Memory(survives_owner=survives_owner)
        self.encoders = [FakeEncoder(f"encode-{i}", self.memory, delay) for i in range(encoders)]
        self.generators = [
            FakeGenerator(f"generate-{i}", self.memory, delay, decodes=not apart) for i in range(generators)
        ]
        self.decoders = [FakeGenerator(f"decode-{i}", self.memory, delay) for i in range(generators * apart)]
        self.locals = [FakeGenerator(f"encode-{i}", self.memory, delay, decodes=False) for i in range(encoders * local)]
        observer, arrivals, service = Observer(), ArrivalRate(), ServiceTime()
        rule = make_rule(rule, BatchOptions(max_items=bound, age_cap=age_cap), arrivals, service)
        encode = EncodePool(
            EncodePolicy(Batcher(rule, bound), arrivals, service, LeastPending(), max_queue), self.memory, observer
        )
        pools = Pools(*(Pool(name, LeastPending()) for name in ("prefill", "local prefill", "decode")))
        self.pipeline = Pipeline(
            encode_pool=encode,
            pools=pools,
            cache=EmbeddingCache(encode, ByteLRU(cache_bytes)),
            admission=Admission(limit),
            offload=make_offload("deficit", remote_ratio),
            slack=Slack(slo_ttft),
            buffers=self.memory,
            deadlines=Deadlines(encode=60.0, first_token=60.0, next_token=60.0),
            observer=observer,
        )
        for encoder in self.encoders:
            encode.add_worker(encoder)
        for pool, workers in (
            (pools.prefill, self.generators),
            (pools.local, self.locals),
            (pools.decode, self.decoders),
        ):
            for worker in workers:
                pool.add_worker(worker)

    @property
    def everyone(self) -> list[FakeGenerator]:
        return [*self.generators, *self.locals, *self.decoders]

    def request(self, name: str, keys: Sequence[str], n: int = 1) -> Request:
        media = tuple(
            MediaItem(
                key=key, modality="image", height=1, width=1, tokens=3, offset=4 * i, pixels=self.memory.put("pixels")
            )
            for i, key in enumerate(keys)
        )
        prompt = (1, *(int(key.rsplit("#", 1)[-1]) for key in keys))
        return Request(id=name, prompt=prompt, media=media, sampling=SamplingParams(), n=n)

    async def run(self, request: Request, *, reloads: bool = True) -> list[int]:
        times = RequestTimes(asyncio.get_running_loop().time())
        outputs = self.pipeline.generate(request, times, reload=self._reload if reloads else None)
        return [output.token_id async for output in outputs]

    async def _reload(self, index: int) -> TensorRef:
        self.reloading += 1
        try:
            await asyncio.sleep(self._delay)
        finally:
            self.reloading -= 1
        return self.memory.put("pixels")

    def assert_clean(self) -> None:
        """Nothing is held but by the cache, and nothing queued, running, pinned or counted any more."""
        pipeline = self.pipeline
        assert pipeline.cache.store.pinned == 0
        pipeline.cache.make_room()
        assert self.memory.held == set()
        assert pipeline.encode_pool.queue_length == 0
        assert pipeline.admission.in_flight == 0
        for worker in self.everyone:
            assert not worker.running
        for pool in (pipeline.pools.prefill, pipeline.pools.local, pipeline.pools.decode):
            assert {load.pending_tokens for load in pool.loads().values()} <= {0}
