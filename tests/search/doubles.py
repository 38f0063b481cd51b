"""A linear cost model, and a trial that runs in milliseconds: FIFO queues one after another, no pipeline.

Queues, batches and steps are played through request by request. Stage times, the safe share and the mean speed of
prefill beside encode are those of `easerve.search`; what it checks is what loads make of them.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean

from easerve.costs.base import ChunkSize, ItemSize
from easerve.search.demand import Demand
from easerve.search.outcome import Outcome
from easerve.search.space import Candidate
from easerve.search.times import Times


@dataclass(frozen=True)
class LinearCosts:
    """Seconds per batch or step, per token, per sequence and per token of context."""

    batch: float = 0.02
    patch_token: float = 1e-4
    step_base: float = 0.02
    prompt_token: float = 1e-4
    sequence: float = 2e-4
    context_token: float = 1e-7
    knee: float = 0.5  # share of a device that encode needs
    kv_tokens: int = 200_000
    kv_bytes_per_token: int = 1
    embedding_bytes_per_token: int = 1

    def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
        alone = self.batch + self.patch_token * sum(item.tokens for item in items)
        return alone * max(1.0, self.knee / share) * max(1.0, share + beside)

    def step(self, chunks: Sequence[ChunkSize], share: float = 1.0, beside: float = 0.0) -> float:
        prompt = sum(chunk.new for chunk in chunks if chunk.new > 1)
        context = sum(chunk.context for chunk in chunks)
        work = self.prompt_token * prompt + self.sequence * len(chunks) + self.context_token * context
        return (self.step_base + work / share) * max(1.0, share + beside)

    def over(self, devices: int) -> LinearCosts:
        """Tensor parallel: 85 % of the speed-up there could be, and what the weights leave free."""
        faster = devices**0.85
        return LinearCosts(
            self.batch, self.patch_token, self.step_base / faster, self.prompt_token / faster, self.sequence / faster,
            self.context_token / faster, self.knee, self.kv_tokens * devices,
        )  # fmt: skip


@dataclass(frozen=True)
class Queues:
    """A trial. `requests` arrive as a Poisson process; each has the mean request's items, give or take one."""

    costs: dict[int, LinearCosts]
    demand: Demand
    requests: int = 150

    def __call__(self, candidate: Candidate, seed: int) -> Outcome:
        rng, allocation = Random(seed), candidate.allocation
        arrivals, moment = [], 0.0
        for _ in range(self.requests):
            moment += rng.expovariate(self.demand.rate)
            arrivals.append(moment)
        mean = round(self.demand.shape.items)
        items = [mean + (rng.choice((-1, 0, 0, 1)) if mean > 1 else 0) for _ in arrivals]
        times = Times(self.costs[allocation.tp], self.demand.shape)
        if allocation.kind == "aggregated":
            first, last = _loops(arrivals, allocation.decoders, times, items, candidate.batch, 0.0)
            return self._outcome(arrivals, first, last)
        encoding = Times(self.costs[allocation.encode_tp], self.demand.shape)
        share = encoding.safe_share(candidate.batch) if candidate.ratio < 1 else 1.0
        beside = 0.0
        if allocation.kind == "colocated":
            beside = min(1.0, self.demand.rate * encoding.encode(candidate.batch) / allocation.encoders)
        ready, busy = _encoded(
            arrivals, items, allocation.encoders, candidate, lambda n: encoding.batch(n, share, beside), self.demand
        )
        if allocation.kind != "e-p-d":
            return self._outcome(arrivals, *_loops(ready, allocation.decoders, times, [0] * len(ready), 1, beside))
        speed = encoding.prefill() / encoding.prefill(1 - share) if share < 1 else 0.0
        first = _prefilled(ready, candidate, times, encoding, max(1e-9, 1 - busy + busy * speed))
        return self._outcome(arrivals, first, _decoded(first, allocation.decoders, times))

    def _outcome(self, arrivals: list[float], first: list[float], last: list[float]) -> Outcome:
        demand, output = self.demand, self.demand.shape.output_tokens
        ttft = [end - start for start, end in zip(arrivals, first, strict=True)]
        tpot = [(end - start) / (output - 1) for start, end in zip(first, last, strict=True)]
        good = sum(
            (demand.ttft is None or one <= demand.ttft) and (demand.tpot is None or other <= demand.tpot)
            for one, other in zip(ttft, tpot, strict=True)
        )
        return Outcome(demand.rate * good / len(arrivals), len(arrivals) / max(last), fmean(ttft), fmean(tpot))


def _encoded(
    arrivals: Sequence[float],
    items: Sequence[int],
    workers: int,
    candidate: Candidate,
    seconds: Callable[[int], float],
    demand: Demand,
) -> tuple[list[float], float]:
    """When each request's last item is encoded, and the share of time that workers are busy."""
    gap = workers / (demand.rate * demand.shape.items) if candidate.rule == "gap" else 0.0
    queue = [(arrival, request) for request, arrival in enumerate(arrivals) for _ in range(items[request])]
    ready, free, at, busy = list(arrivals), [0.0] * workers, 0, 0.0
    while at < len(queue):
        start = max(heapq.heappop(free), queue[at][0])
        size = 1
        while size < candidate.batch and at + size < len(queue):
            arrived = queue[at + size][0]
            if arrived > max(start, queue[at + size - 1][0] + gap):
                break
            size, start = size + 1, max(start, arrived)
        end = start + seconds(size)
        busy += end - start
        for _, request in queue[at : at + size]:
            ready[request] = max(ready[request], end)
        heapq.heappush(free, end)
        at += size
    return ready, min(1.0, busy / workers / max(ready))


def _prefilled(ready: list[float], candidate: Candidate, times: Times, encoding: Times, spare: float) -> list[float]:
    """Two pools of servers; every request goes to one of them by the deficit counter. Short prompts share a step."""
    allocation, owed = candidate.allocation, 0.5
    queues: dict[bool, list[int]] = {True: [], False: []}
    for request in sorted(range(len(ready)), key=lambda one: ready[one]):
        owed += candidate.ratio
        far = owed >= 1 or candidate.ratio == 1
        owed -= far
        queues[far].append(request)
    first = list(ready)
    for far, workers, own, speed in (
        (True, allocation.prefillers, times, 1.0),
        (False, allocation.encoders, encoding, spare),
    ):
        together = max(1, own.bounds.max_batched_tokens // own.shape.prompt_tokens)
        free, at, queue = [0.0] * workers, 0, queues[far]
        while at < len(queue):
            start = max(heapq.heappop(free), ready[queue[at]])
            size = sum(ready[one] <= start for one in queue[at : at + together])
            end = start + (own.first_token() if size == 1 else size * own.prefill()) / speed
            for request in queue[at : at + size]:
                first[request] = end
            heapq.heappush(free, end)
            at += size
    return first


def _decoded(first: list[float], workers: int, times: Times) -> list[float]:
    """Continuous batching, a step at a time."""
    last = list(first)
    in_order = sorted(range(len(first)), key=lambda one: first[one])
    for worker in range(workers):
        waiting = deque(in_order[worker::workers])
        batch = _Batch(times, last)
        while waiting or batch.running:
            if not batch.running:
                batch.now = max(batch.now, first[waiting[0]])
            while waiting and first[waiting[0]] <= batch.now and len(batch.running) < 64:
                batch.join(waiting.popleft())
            batch.step(first[waiting[0]] if waiting else math.inf)
    return last


def _loops(
    ready: list[float], workers: int, times: Times, items: list[int], most: int, beside: float
) -> tuple[list[float], list[float]]:
    """Workers that do encode batches, a prompt and a decode step in turn."""
    first, last = list(ready), list(ready)
    in_order = sorted(range(len(ready)), key=lambda one: ready[one])
    for worker in range(workers):
        waiting = deque(in_order[worker::workers])
        batch = _Batch(times, last, beside)
        while waiting or batch.running:
            if not batch.running:
                batch.now = max(batch.now, ready[waiting[0]])
            if waiting and ready[waiting[0]] <= batch.now and len(batch.running) < 64:
                request = waiting.popleft()
                for start in range(0, items[request], most):
                    batch.now += times.batch(min(most, items[request] - start))
                batch.now += times.first_token(1.0, beside)
                first[request] = batch.now
                batch.join(request)
            if batch.running:
                batch.step(ready[waiting[0]] if waiting else math.inf)
    return first, last


class _Batch:
    """Sequences that are decoded together; all have as many tokens to come when they join."""

    def __init__(self, times: Times, last: list[float], beside: float = 0.0) -> None:
        self.now = 0.0
        self.running: deque[tuple[int, int]] = deque()  # request, and the step it ends with
        self._times, self._last, self._beside, self._steps = times, last, beside, 0

    def join(self, request: int) -> None:
        self.running.append((request, self._steps + self._times.shape.output_tokens - 1))

    def step(self, until: float) -> None:
        """As many steps as there are to the next end, or to the moment `until`; at least one."""
        seconds = self._times.step(len(self.running), self._beside)
        left = self.running[0][1] - self._steps
        steps = left if until == math.inf else max(1, min(left, math.ceil((until - self.now) / seconds)))
        self.now += steps * seconds
        self._steps += steps
        while self.running and self.running[0][1] == self._steps:
            self._last[self.running.popleft()[0]] = self.now
