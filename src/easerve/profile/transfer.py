"""How long bytes travel from one process to another, by the transfer that a server here would use."""

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
from easerve.request import TensorRef
from easerve.transfer.choose import Locality, Transfers, choose, make_transfer

_CACHE_LINE = 64


def transfer_kind(asked: str) -> str:
    """The transfer between workers of one host. Raises StartupError for one that there is not."""
    return choose(asked, Locality.SAME_HOST)


def transfer_times(kind: str, plan: Plan) -> Iterator[TransferTime]:
    with tempfile.TemporaryDirectory(dir=_shared_memory()) as folder, _owner(kind, folder, max(plan.nbytes)) as owner:
        reader = make_transfer(kind, Path(folder), "reader")
        try:
            for nbytes in plan.nbytes:
                seconds = [_move(owner, reader, nbytes) for _ in range(2 + plan.repeats)]
                yield TransferTime(nbytes, median(seconds[2:]))  # the first connect, and take memory for the first time
        finally:
            reader.close()


def _move(owner: Connection, reader: Transfers, nbytes: int) -> float:
    """To put, open, look at and release; the message between is not counted."""
    owner.send(nbytes)
    ref, put_seconds = owner.recv()
    started = time.perf_counter()
    seen = int(np.frombuffer(reader.open(ref), np.uint8)[::_CACHE_LINE].sum())
    reader.release(ref)
    seconds: float = put_seconds + time.perf_counter() - started
    if seen != nbytes // _CACHE_LINE:
        raise StartupError(f"{nbytes} bytes did not arrive as they were put")
    return seconds


@contextmanager
def _owner(kind: str, folder: str, most: int) -> Iterator[Connection]:
    """The other process, which puts as many bytes as it is sent, until that is None."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_put_when_asked, args=(there, kind, folder, most), daemon=True)
    process.start()
    there.close()
    try:
        yield here
    finally:
        here.send(None)
        process.join()


def _put_when_asked(orders: Connection, kind: str, folder: str, most: int) -> None:
    transfer = make_transfer(kind, Path(folder), "owner")
    data = np.ones(most, np.uint8)
    while (nbytes := orders.recv()) is not None:
        piece = data[:nbytes].data
        started = time.perf_counter()
        ref: TensorRef = transfer.put(piece, (nbytes,), "uint8")
        orders.send((ref, time.perf_counter() - started))
    transfer.close()


def _shared_memory() -> str | None:
    """Where a server's folder lies, so that shared memory is memory."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None
