"""Shares of a CPU: threads that are bound to cores.

A thread's OpenMP team is its own and keeps the cores that the thread had when the team was made, so moving a thread
would leave its team behind. Instead there is a lane (a thread with a team) for every share of each stage, made once;
switching is handing the work to another lane.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import torch

from easerve.engine.partition.base import T, thinned
from easerve.errors import StartupError


class CorePartition:
    """Implements `Partition` over `cores` (numbers of the operating system)."""

    unit: Literal["core"] = "core"

    def __init__(self, cores: Sequence[int]) -> None:
        if not sys.platform.startswith("linux"):
            raise StartupError(f"{sys.platform} cannot bind a thread to cores; use --partition none or auto")
        self.whole = len(cores)
        self.choices = thinned(range(1, len(cores)))
        threads = torch.get_num_threads()
        self._encode: dict[int | None, _Lane] = {None: _Lane("encode", cores)}
        self._prefill: dict[int | None, _Lane] = {None: _Lane("prefill", cores)}
        for held in self.choices:
            self._encode[held] = _Lane("encode", cores[:held])
            self._prefill[held] = _Lane("prefill", cores[held:])
        torch.set_num_threads(threads)  # threads to come take the count that was set last, whoever set it

    def encode(self, held: int | None, work: Callable[[], T]) -> T:
        return self._encode[held].run(work)

    def prefill(self, held: int | None, work: Callable[[], T]) -> T:
        return self._prefill[held].run(work)

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        pass

    def close(self) -> None:
        for lane in (*self._encode.values(), *self._prefill.values()):
            lane.close()


class _Lane:
    """A thread on cores of its own."""

    def __init__(self, stage: str, cores: Sequence[int]) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"{stage} on {len(cores)}")
        self._thread.submit(_bind, frozenset(cores)).result()

    def run(self, work: Callable[[], T]) -> T:
        return self._thread.submit(work).result()

    def close(self) -> None:
        self._thread.shutdown()


def _bind(cores: frozenset[int]) -> None:
    os.sched_setaffinity(0, cores)  # of this thread; its team inherits it
    torch.get_num_threads()  # lets torch take its process-wide count, before this thread's own replaces it
    torch.set_num_threads(len(cores))
