"""How much slower a stage is while another core of the machine is busy with a stage: they share caches and memory."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from easerve.costs.profile_file import Slowdown
from easerve.profile.helper import helper
from easerve.profile.run import bind
from easerve.profile.works import KINDS, Works, load_works
from easerve.workers.spec import Device, usable_cores

ROUNDS, REPEATS = 3, 5
SETTLING = 0.3  # seconds until a neighbour is at its new work


def other_core(device: Device) -> Device | None:
    """One that the device does not have, if there is one."""
    others = [core for core in range(len(usable_cores())) if core not in device.indices]
    return Device("cpu", (others[0],)) if others and device.kind == "cpu" else None


def measure_slowdowns(folder: Path, device: Device, neighbour: Device, dtype: str = "auto") -> list[Slowdown]:
    """Of each stage on `device` beside each on `neighbour`, times alone and beside in turn.

    This process is bound to the device meanwhile. Raises StartupError if the neighbour dies.
    """
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with _neighbour(folder, neighbour, dtype) as tell, _bound(device):
        works = load_works(folder, device, dtype)
        for _ in range(ROUNDS):
            for beside in ("", *KINDS):
                tell(beside)
                for kind, work in works.items():
                    seconds[kind, beside] += [work() for _ in range(REPEATS)]
    return [
        Slowdown(kind, beside, max(1.0, median(seconds[kind, beside]) / median(seconds[kind, ""])))
        for kind in KINDS
        for beside in KINDS
    ]


@contextmanager
def _bound(device: Device) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    bind(device)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _neighbour(folder: Path, device: Device, dtype: str) -> Iterator[Callable[[str], None]]:
    """A process on another core, and what tells it the kind of its work; none at first."""
    with helper(_keep_busy, folder, device, dtype) as orders:

        def tell(kind: str) -> None:
            orders.send(kind)
            if orders.poll(SETTLING):
                orders.recv()  # its end: it has nothing to say

        yield tell


def _keep_busy(orders: Connection, works: Works) -> None:
    while True:
        kind = orders.recv()
        while kind and not orders.poll():
            works[kind]()
