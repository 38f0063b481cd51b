"""Seconds of work on a device, to the end of what it has queued there."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch

from easerve.workers.spec import Device

Seconds = float


class Stopwatch:
    """Of work on `device`; medians are of `repeats`, after one that warms up."""

    def __init__(self, device: Device, repeats: int) -> None:
        self._on_cuda = device.kind == "cuda"
        self.repeats = repeats

    def once(self, work: Callable[[], object]) -> Seconds:
        started = time.perf_counter()
        work()
        if self._on_cuda:
            torch.cuda.synchronize()
        return time.perf_counter() - started

    def median(self, work: Callable[[], object]) -> Seconds:
        return median([self.once(work) for _ in range(1 + self.repeats)][1:])

    def too_long(self, expected: Seconds, patience: Seconds) -> bool:
        """Whether all repeats of something would take longer than that."""
        return expected * (1 + self.repeats) > patience
