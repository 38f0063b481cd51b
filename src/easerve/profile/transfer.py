"""How long bytes travel from one process to another, by the transfer that a server here would use.

One process puts, the other opens, looks at every cache line and releases. These steps are timed, each in its own
process, and not the message between them, which is the same for all transfers.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np

from easerve.costs.profile_file import TransferTime
from easerve.errors import StartupError
from easerve.profile.plan import Plan
from easerve.transfer.choose import Locality, Transfers, choose, make_transfer
from easerve.workers.run_folder import memory_folder

CONNECTING = 2  # first moves, which connect, and take memory for the first time
_CACHE_LINE = 64


def transfer_kind(asked: str) -> str:
    """The transfer between workers of one host. Raises StartupError for one that there is not."""
    return choose(asked, Locality.SAME_HOST)


def transfer_times(kind: str, plan: Plan) -> Iterator[TransferTime]:
    with (
        tempfile.TemporaryDirectory(dir=memory_folder()) as folder,
        paired(kind, Locality.SAME_HOST, folder, max(plan.nbytes)) as pair,
    ):
        for nbytes in plan.nbytes:
            seconds = [pair.move(nbytes) for _ in range(CONNECTING + plan.repeats)]
            yield TransferTime(nbytes, median(seconds[CONNECTING:]))


class Pair:
    """An owner's process and a reader in this one."""

    def __init__(self, owner: Connection, reader: Transfers) -> None:
        self._owner = owner
        self._reader = reader

    def move(self, nbytes: int) -> float:
        """Seconds to put, open, look at and release so many bytes, a multiple of 64. Raises StartupError if they are
        not what was put."""
        self._owner.send(nbytes)
        ref, put_seconds = self._owner.recv()
        started = time.perf_counter()
        seen = int(np.frombuffer(self._reader.open(ref), np.uint8)[::_CACHE_LINE].sum())
        self._reader.release(ref)
        seconds: float = put_seconds + time.perf_counter() - started
        if seen != nbytes // _CACHE_LINE:
            raise StartupError(f"{nbytes} bytes did not arrive as they were put")
        return seconds


@contextmanager
def paired(kind: str, locality: Locality, folder: str, most: int) -> Iterator[Pair]:
    """Two processes that meet in `folder`, of which one puts up to `most` bytes at a time by the transfer `kind`."""
    name = f"{kind}-{locality.value}"
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    owner = context.Process(target=_put_when_asked, args=(there, kind, locality, folder, f"owner-{name}", most))
    owner.daemon = True
    owner.start()
    there.close()
    try:
        reader = make_transfer(kind, Path(folder), f"reader-{name}", locality=locality)
        try:
            yield Pair(here, reader)
        finally:
            reader.close()
    finally:
        here.send(None)
        owner.join()


def _put_when_asked(orders: Connection, kind: str, locality: Locality, folder: str, name: str, most: int) -> None:
    """The owner's process: sizes come in, references and seconds go out; None ends it."""
    transfer = make_transfer(kind, Path(folder), name, locality=locality)
    data = np.ones(most, np.uint8)
    while (nbytes := orders.recv()) is not None:
        piece = data[:nbytes].data
        started = time.perf_counter()
        ref = transfer.put(piece, (nbytes,), "uint8")
        orders.send((ref, time.perf_counter() - started))
    transfer.close()
