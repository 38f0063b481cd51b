"""What it costs to move a buffer from one process to another, by each transfer backend.

One process puts, the other opens, looks at every cache line and releases. Timed are these steps, each in its own
process, and not the message between them, which is the same for all. The backends take turns, so that a machine whose
speed drifts favours none; what counts are the medians of the rounds' ratios to shared memory.

    OMP_NUM_THREADS=1 python benchmarks/transfer.py
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from easerve.transfer.choose import Locality, Transfers, make_transfer
from easerve.transfer.nixl_agent import is_installed

SIZES = {"4 KiB": 4 * 2**10, "256 KiB": 256 * 2**10, "4 MiB": 4 * 2**20, "64 MiB": 64 * 2**20}
WAYS = {
    "shm": ("shm", Locality.SAME_HOST),
    "zmq ipc": ("zmq", Locality.SAME_HOST),
    "zmq tcp": ("zmq", Locality.ACROSS_HOSTS),
    "nixl": ("nixl", Locality.SAME_HOST),
}
CACHE_LINE = 64


def put_when_asked(orders: Connection, kind: str, folder: str, locality: Locality) -> None:
    """The owner's process: sizes come in, references and seconds go out; None ends it."""
    transfer = make_transfer(kind, Path(folder), f"owner-{kind}-{locality.value}", locality=locality)
    data = np.ones(max(SIZES.values()), np.uint8)
    while (nbytes := orders.recv()) is not None:
        piece = data[:nbytes].data
        started = time.perf_counter()
        ref = transfer.put(piece, (nbytes,), "uint8")
        orders.send((ref, time.perf_counter() - started))
    transfer.close()


class Pair:
    """An owner's process and a reader in this one."""

    def __init__(self, orders: Connection, reader: Transfers) -> None:
        self._orders = orders
        self._reader = reader

    def move(self, nbytes: int) -> float:
        """Seconds to put, open, see and release a buffer."""
        self._orders.send(nbytes)
        ref, put_seconds = self._orders.recv()
        started = time.perf_counter()
        seen = np.frombuffer(self._reader.open(ref), np.uint8)[::CACHE_LINE].sum()
        self._reader.release(ref)
        seconds = time.perf_counter() - started
        if seen != nbytes // CACHE_LINE:
            raise RuntimeError("the buffer did not arrive as it was put")
        return float(put_seconds + seconds)


@contextmanager
def paired(kind: str, locality: Locality, folder: str) -> Iterator[Pair]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=put_when_asked, args=(there, kind, folder, locality))
    process.start()
    there.close()
    reader = make_transfer(kind, Path(folder), f"reader-{kind}-{locality.value}", locality=locality)
    try:
        yield Pair(here, reader)
    finally:
        here.send(None)
        process.join()
        reader.close()


def measure(ways: Sequence[str], rounds: int, folder: str) -> dict[str, dict[str, list[float]]]:
    """Seconds of every round by size and way."""
    with ExitStack() as exits:
        pairs = {way: exits.enter_context(paired(*WAYS[way], folder)) for way in ways}
        seconds: dict[str, dict[str, list[float]]] = {size: {way: [] for way in ways} for size in SIZES}
        for size, nbytes in SIZES.items():
            for number in range(rounds + 2):
                for way, pair in pairs.items():
                    spent = pair.move(nbytes)
                    if number >= 2:  # the first ones connect, and take memory for the first time
                        seconds[size][way].append(spent)
    return seconds


def ratios(seconds: dict[str, list[float]]) -> dict[str, float]:
    return {
        way: statistics.median(one / base for one, base in zip(spent, seconds["shm"], strict=True))
        for way, spent in seconds.items()
    }


def report(seconds: dict[str, dict[str, list[float]]]) -> str:
    ways = list(next(iter(seconds.values())))
    lines = ["| size | shm, ms | " + " | ".join(f"{way} / shm" for way in ways[1:]) + " |"]
    lines.append("|---" * (len(ways) + 1) + "|")
    for size, by_way in seconds.items():
        ratio = ratios(by_way)
        cells = [f"{statistics.median(by_way['shm']) * 1e3:.3f}", *(f"{ratio[way]:.1f}" for way in ways[1:])]
        lines.append(f"| {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="rounds of each size (default: 40)")
    parser.add_argument("--json", type=Path, help="also write the seconds of every round to this file")
    arguments = parser.parse_args()
    ways = [way for way in WAYS if way != "nixl" or is_installed()]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        seconds = measure(ways, arguments.rounds, folder)
    print(report(seconds))
    if arguments.json:
        arguments.json.write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
