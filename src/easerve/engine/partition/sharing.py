"""Encode and local prefill on one device: a partitioning rule decides, a partition does it."""

from __future__ import annotations

from collections.abc import Callable

from easerve.engine.partition.base import Partition, T
from easerve.policy.partition import Partitioning
from easerve.policy.rates import TokenRate


class Sharing:
    """`encode` is called by the encode thread, `prefill` by the prefill thread, the counters are read by anybody."""

    def __init__(self, partition: Partition, rule: Partitioning, clock: Callable[[], float]) -> None:
        self.partition = partition
        self.batches_apart = 0  # encode batches that had a part of the device to themselves
        self.units = 0  # that the latest batch held; 0: the device was not partitioned
        self._rule = rule
        self._clock = clock
        self._arrivals = TokenRate()  # of items
        self._last_batch: float | None = None
        self._held = rule.idle
        self._encode_on = self._prefill_on = rule.idle
        self._encode_switches = self._prefill_switches = 0

    @property
    def switches(self) -> int:
        """Times that a piece of work ran on another part of the device than the one before of its stage."""
        return self._encode_switches + self._prefill_switches

    def encode(self, items: int, work: Callable[[], T]) -> T:
        """Run an encode batch as large as `items` items of the profile."""
        held = self._rule.during(items, self._rate(items))
        self._encode_switches += held != self._encode_on
        self._encode_on = held
        self.units = held or 0
        self.batches_apart += held is not None
        self._held = held
        try:
            return self.partition.encode(held, work)
        finally:
            self._held = self._rule.idle

    def prefill(self, work: Callable[[], T]) -> T:
        """Run an engine step on what is left by encode as it starts; it keeps that to its end."""
        held = self._held
        self._prefill_switches += held != self._prefill_on
        self._prefill_on = held
        return self.partition.prefill(held, work)

    def _rate(self, items: int) -> float:
        """Items a second of late; 0 before the second batch."""
        now = self._clock()
        if self._last_batch is not None:
            self._arrivals.observe(items, now - self._last_batch)
        self._last_batch = now
        return self._arrivals.tokens_per_second or 0.0
