"""How fast a device is at this moment: the times of one work of each stage, again whenever they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from easerve.profile.helper import helper
from easerve.profile.works import KINDS, Works
from easerve.workers.spec import Device

REPEATS: Mapping[str, int] = {"encode": 5, "prefill": 5, "decode": 20}  # after one that warms up

Reading = dict[str, float]  # seconds, by kind of work
Ask = Callable[[Collection[str]], Reading]  # for these kinds


@contextmanager
def probe(folder: Path, device: Device, dtype: str = "auto") -> Iterator[Ask]:
    """A process that sleeps until it is asked. Raises StartupError if it dies."""
    with helper(_answer, folder, device, dtype) as orders:

        def ask(kinds: Collection[str]) -> Reading:
            orders.send(tuple(kinds))
            found: Reading = orders.recv()
            return found

        yield ask


def _answer(orders: Connection, works: Works) -> None:
    while True:
        orders.send(_read(works, orders.recv()))


def _read(works: Works, kinds: Collection[str]) -> Reading:
    """In the order of KINDS: a decode is timed behind the same context each time if a prefill went before."""
    if "decode" in kinds:
        works["prefill"]()
    return {kind: _median(works, kind) for kind in KINDS if kind in kinds}


def _median(works: Works, kind: str) -> float:
    return median([works[kind]() for _ in range(1 + REPEATS[kind])][1:])
