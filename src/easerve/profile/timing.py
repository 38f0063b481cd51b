"""Seconds of work on a device, to the end of what it has queued there."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median

import torch

from easerve.workers.spec import Device

Seconds = float
Clock = Callable[[], Seconds]

_WAITED = Path("/proc/thread-self/schedstat")  # on Linux: nanoseconds at work, nanoseconds of waiting, turns


def on_core() -> Seconds:
    """A clock that stands still while this thread waits for a core that others have; where that is not told, it goes
    on."""
    waited = 0
    with suppress(OSError):
        waited = int(_WAITED.read_text().split()[1])
    return time.perf_counter() - waited / 1e9


class Stopwatch:
    """Of work on `device`; medians are of `repeats`, after one that warms up."""

    def __init__(self, device: Device, repeats: int, clock: Clock = time.perf_counter) -> None:
        self._on_cuda = device.kind == "cuda"
        self._clock = clock
        self.repeats = repeats

    def once(self, work: Callable[[], object]) -> Seconds:
        started = self._clock()
        work()
        if self._on_cuda:
            torch.cuda.synchronize()
        return self._clock() - started

    def median(self, work: Callable[[], object]) -> Seconds:
        return median([self.once(work) for _ in range(1 + self.repeats)][1:])

    def too_long(self, expected: Seconds, patience: Seconds) -> bool:
        """Whether all repeats of something would take longer than that."""
        return expected * (1 + self.repeats) > patience
