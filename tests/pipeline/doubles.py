"""Stand-ins for workers and memory that know what they hold, so that a leak or a mix-up shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from easerve.errors import EAServeError
from easerve.pipeline.encode import EncodePool
from easerve.pipeline.generate import GeneratePool
from easerve.pipeline.pipeline import Deadlines, Pipeline
from easerve.pipeline.stages import EncodedBatch, SequenceJob, Sink
from easerve.pipeline.timing import RequestTimes
from easerve.policy.admission import Admission
from easerve.policy.batching import Batcher, Greedy
from easerve.policy.placement import LeastPending
from easerve.request import EmbeddingRef, MediaItem, PrefillTimes, Request, SamplingParams, TensorRef, TokenOutput


class Memory:
    """Buffers by name; what is left at the end leaked."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self._count = 0

    def put(self, name: str) -> TensorRef:
        self._count += 1
        ref = TensorRef(f"{name}-{self._count}", (1,), "uint8", 1)
        self.held.add(ref.name)
        return ref

    def release(self, ref: TensorRef) -> None:
        self.held.discard(ref.name)


class FakeEncoder:
    """Encodes an item to its own key, after `delay`; items whose key starts with "bad" fail."""

    def __init__(self, name: str, memory: Memory, delay: float = 0.0) -> None:
        self.name = name
        self.batches: list[list[str]] = []
        self._memory = memory
        self._delay = delay
        self.fault: Callable[[Sequence[MediaItem]], EAServeError | None] = lambda items: None

    async def encode(self, items: Sequence[MediaItem]) -> EncodedBatch:
        self.batches.append([item.key for item in items])
        await asyncio.sleep(self._delay)
        if (error := self.fault(items)) is not None:
            raise error
        return EncodedBatch([self._one(item) for item in items], self._delay)

    def _one(self, item: MediaItem) -> EmbeddingRef | EAServeError:
        if item.key.startswith("bad"):
            return EAServeError(f"cannot encode {item.key}")
        return EmbeddingRef(key=item.key, tokens=item.tokens, tensors={"values": self._memory.put(item.key)})


class FakeGenerator:
    """Answers with one token per media item, its number in the key, then ends; checks what it is given."""

    def __init__(self, name: str, memory: Memory, delay: float = 0.0) -> None:
        self.name = name
        self.cancelled: list[str] = []
        self.running: dict[str, asyncio.Task[None]] = {}
        self._memory = memory
        self._delay = delay

    def start(self, job: SequenceJob, sink: Sink) -> None:
        for item, embedding in job.media:
            assert item.key == embedding.key
            assert embedding.tensors["values"].name in self._memory.held, "released before use"
        task = asyncio.get_running_loop().create_task(self._run(job, sink))
        self.running[job.sequence_id] = task
        task.add_done_callback(lambda _: self.running.pop(job.sequence_id, None))

    def cancel(self, sequence_id: str) -> None:
        self.cancelled.append(sequence_id)
        if sequence_id in self.running:
            self.running[sequence_id].cancel()

    async def _run(self, job: SequenceJob, sink: Sink) -> None:
        tokens = [int(item.key.rsplit("#", 1)[-1]) for item, _ in job.media] or [0]
        for index, token in enumerate(tokens):
            await asyncio.sleep(self._delay)
            times = PrefillTimes(0.0, 0.0, self._delay) if index == 0 else None
            reason = "stop" if index == len(tokens) - 1 else None
            sink(TokenOutput(sequence_id=job.sequence_id, token_id=token, finish_reason=reason, times=times))


class World:
    """A pipeline over doubles."""

    def __init__(self, *, encoders: int = 1, delay: float = 0.0, bound: int = 4, limit: int = 1000) -> None:
        self.memory = Memory()
        self.encoders = [FakeEncoder(f"encode-{i}", self.memory, delay) for i in range(encoders)]
        self.generator = FakeGenerator("generate-0", self.memory, delay)
        self.deadlines = Deadlines(encode=5.0, first_token=5.0, next_token=5.0)
        encode = EncodePool(Batcher(Greedy(), bound), self.memory)
        generate = GeneratePool(LeastPending())
        self.pipeline = Pipeline(
            encode=encode,
            generate=generate,
            admission=Admission(limit),
            buffers=self.memory,
            deadlines=self.deadlines,
        )
        for encoder in self.encoders:
            encode.add_worker(encoder)
        generate.add_worker(self.generator)

    def request(self, name: str, keys: Sequence[str], n: int = 1) -> Request:
        media = tuple(
            MediaItem(
                key=key, modality="image", height=1, width=1, tokens=3, offset=4 * i, pixels=self.memory.put("pixels")
            )
            for i, key in enumerate(keys)
        )
        return Request(id=name, prompt=(1,) * (4 * len(keys) + 1), media=media, sampling=SamplingParams(), n=n)

    async def run(self, request: Request) -> list[int]:
        times = RequestTimes(asyncio.get_running_loop().time())
        return [output.token_id async for output in self.pipeline.generate(request, times)]

    def assert_clean(self) -> None:
        """Nothing is held, queued, running or counted any more."""
        assert self.memory.held == set()
        assert self.pipeline.encode_pool.queue_length == 0
        assert self.pipeline.admission.in_flight == 0
        assert all(task.done() or task.cancelling() for task in self.generator.running.values())
        assert set(self.pipeline.generate_pool.pending_tokens().values()) <= {0}
