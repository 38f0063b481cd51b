"""Measures encode by batch and share of the device: alone, and beside a prefill on the rest.

Every time is the median of a few after one that warms up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from easerve.engine.partition.base import Partition
from easerve.policy.partition import EncodeProfile

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ShareTimes:
    """Seconds of encode by batch (rows) and units (columns, the last the whole device), and tokens per second of the
    prefill that ran beside it, by units. Beside prefill, the whole device is both stages' at once."""

    batches: tuple[int, ...]
    units: tuple[int, ...]
    alone: Rows
    beside: Rows
    prefill_tokens_per_second: tuple[float, ...]
    prefill_alone_tokens_per_second: float

    def profile(self) -> EncodeProfile:
        """What shares are decided by: beside prefill on a part of the device, alone on all of it."""
        rows = zip(self.alone, self.beside, strict=True)
        return EncodeProfile(self.batches, self.units, tuple((*beside[:-1], alone[-1]) for alone, beside in rows))


@dataclass(frozen=True)
class Bench:
    """`encode(items)` computes a batch, `prefill()` a chunk and returns its tokens, on whichever streams or threads."""

    partition: Partition
    encode: Callable[[int], None]
    prefill: Callable[[], int]
    repeats: int = 3

    def share_times(self, batches: Sequence[int], report: Callable[[str], None] = lambda text: None) -> ShareTimes:
        """All batches on all shares."""
        alone, beside, speeds = [], [], []
        with self._prefilling(None) as prefilled:
            prefill_alone = self._quiet(prefilled)
        shares: list[int | None] = [*self.partition.choices, None]
        units = [held or self.partition.whole for held in shares]
        for held, count in zip(shares, units, strict=True):
            report(f"encode on {count} of {self.partition.whole} {self.partition.unit}s")
            alone.append([self._seconds(held, items) for items in batches])
            with self._prefilling(held) as prefilled:
                beside.append([self._seconds(held, items) for items in batches])
                while not prefilled.chunks and prefilled.error is None:  # no whole chunk fitted beside that
                    self._once(held, batches[0])
                speeds.append(prefilled.tokens_per_second)
        return ShareTimes(
            tuple(batches), tuple(units), _transposed(alone), _transposed(beside), tuple(speeds), prefill_alone
        )

    def affordable(self, largest: int, seconds: float) -> list[int]:
        """Batches 1, 2, 4.. to `largest` that can be measured on all shares in about so many seconds; at least the
        first. A share is taken to cost twice what the whole device does, and twice that beside prefill."""
        runs = (1 + self.repeats) * (len(self.partition.choices) + 1) * (2 + 4)
        found: list[int] = []
        for items in _doubling(largest):
            seconds -= runs * min(self._once(None, items) for _ in range(2))  # the first may still warm up
            if found and seconds < 0:
                break
            found.append(items)
        return found

    def _seconds(self, held: int | None, items: int) -> float:
        self._once(held, items)
        return median(self._once(held, items) for _ in range(self.repeats))

    def _once(self, held: int | None, items: int) -> float:
        started = time.perf_counter()
        self.partition.encode(held, lambda: self.encode(items))
        return time.perf_counter() - started

    @contextmanager
    def _prefilling(self, held: int | None) -> Iterator[_Prefilled]:
        """Chunk after chunk beside encode, from a first one that has been computed on."""
        prefilled = _Prefilled(self, held)
        thread = threading.Thread(target=prefilled.run, name="prefill beside")
        thread.start()
        try:
            prefilled.first.wait()
            yield prefilled
        finally:
            prefilled.over = True
            thread.join()
        if prefilled.error is not None:
            raise prefilled.error

    def _quiet(self, prefilled: _Prefilled) -> float:
        """Tokens per second of prefill with nothing beside it."""
        goal = prefilled.chunks + self.repeats
        while prefilled.chunks < goal and prefilled.error is None:
            time.sleep(0.001)
        return prefilled.tokens_per_second


class _Prefilled:
    """What a prefill thread has done since its first chunk, which warms up."""

    def __init__(self, bench: Bench, held: int | None) -> None:
        self.first = threading.Event()
        self.chunks = 0
        self.over = False
        self.error: Exception | None = None
        self._bench = bench
        self._held = held
        self._tokens = 0
        self._seconds = 0.0

    @property
    def tokens_per_second(self) -> float:
        return self._tokens / self._seconds if self._seconds else 0.0

    def run(self) -> None:
        try:
            self._chunk()
            self.first.set()
            while not self.over:
                started = time.perf_counter()
                tokens = self._chunk()
                self._tokens, self._seconds = self._tokens + tokens, self._seconds + time.perf_counter() - started
                self.chunks += 1
        except Exception as error:
            self.error = error
        finally:
            self.first.set()

    def _chunk(self) -> int:
        return self._bench.partition.prefill(self._held, self._bench.prefill)


def _doubling(largest: int) -> Iterator[int]:
    items = 1
    while items < largest:
        yield items
        items *= 2
    yield largest


def _transposed(columns: Sequence[Sequence[float]]) -> Rows:
    return tuple(zip(*columns, strict=True))
