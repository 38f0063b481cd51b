"""Arrivals for simulations, and a batcher run over them, with workers always idle or with one that takes its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random

from easerve.policy.batching import Batcher, BatchRule
from easerve.policy.service import ServiceTime


def poisson(rate: float, amount: int, seed: int) -> Iterator[float]:
    return gamma(rate, 1.0, amount, seed)


def gamma(rate: float, cv: float, amount: int, seed: int) -> Iterator[float]:
    """Arrival times whose gaps have the coefficient of variation `cv`."""
    random, now = Random(seed), 0.0
    for _ in range(amount):
        now += random.gammavariate(1 / cv**2, cv**2 / rate)
        yield now


@dataclass(frozen=True)
class Batch:
    arrivals: list[float]
    started: float

    @property
    def hold(self) -> float:
        return self.started - self.arrivals[0]


def run(rule: BatchRule, max_items: int, arrivals: Iterable[float]) -> list[Batch]:
    """Every batch but the last, which the end of the arrivals cut short."""
    batcher: Batcher[float] = Batcher(rule, max_items)
    batches = []
    for now in arrivals:
        while (due := batcher.ready_at()) is not None and due < now:
            batches.append(Batch(batcher.take(due), due))
        batcher.push(now, now)
        while (due := batcher.ready_at()) is not None and due <= now:
            batches.append(Batch(batcher.take(now), now))
    return batches


def mean_size(batches: list[Batch]) -> float:
    return sum(len(batch.arrivals) for batch in batches) / len(batches)


def mean_hold(batches: list[Batch]) -> float:
    return sum(batch.hold for batch in batches) / len(batches)


def mean_wait(batches: list[Batch]) -> float:
    """Per item."""
    waits = [batch.started - arrival for batch in batches for arrival in batch.arrivals]
    return sum(waits) / len(waits)


@dataclass(frozen=True)
class Served:
    mean_seconds: float  # from arrival to the end of service, per item
    busy: float  # share of the time


def serve(rule: BatchRule, max_items: int, service: ServiceTime, arrivals: Iterable[float]) -> Served:
    """One worker in virtual time, which takes exactly as long as `service` says."""
    batcher: Batcher[float] = Batcher(rule, max_items)
    free = busy = spent = 0.0
    served, newest = 0, 0.0
    for now in arrivals:
        while (due := batcher.ready_at()) is not None and (start := max(due, free, newest)) < now:
            batch = batcher.take(start)
            seconds = service.predict(len(batch))
            free = start + seconds
            busy += seconds
            spent += sum(free - arrival for arrival in batch)
            served += len(batch)
        batcher.push(now, now)
        newest = now
    return Served(spent / served, busy / newest)
