"""What it costs to move a buffer from one process to another, by each transfer backend.

Moved and timed as `easerve profile` does. The backends take turns, so that a machine whose speed drifts favours none;
what counts are the medians of the rounds' ratios to shared memory.

    OMP_NUM_THREADS=1 python benchmarks/transfer.py
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from easerve.profile.transfer import CONNECTING, paired
from easerve.transfer.choose import Locality
from easerve.transfer.nixl_agent import is_installed
from easerve.workers.run_folder import memory_folder

SIZES = {"4 KiB": 4 * 2**10, "256 KiB": 256 * 2**10, "4 MiB": 4 * 2**20, "64 MiB": 64 * 2**20}
WAYS = {
    "shm": ("shm", Locality.SAME_HOST),
    "zmq ipc": ("zmq", Locality.SAME_HOST),
    "zmq tcp": ("zmq", Locality.ACROSS_HOSTS),
    "nixl": ("nixl", Locality.SAME_HOST),
}


def measure(ways: Sequence[str], rounds: int, folder: str) -> dict[str, dict[str, list[float]]]:
    """Seconds of every round by size and way."""
    with ExitStack() as exits:
        pairs = {way: exits.enter_context(paired(*WAYS[way], folder, max(SIZES.values()))) for way in ways}
        seconds: dict[str, dict[str, list[float]]] = {size: {way: [] for way in ways} for size in SIZES}
        for size, nbytes in SIZES.items():
            for number in range(CONNECTING + rounds):
                for way, pair in pairs.items():
                    spent = pair.move(nbytes)
                    if number >= CONNECTING:
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
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        seconds = measure(ways, arguments.rounds, folder)
    print(report(seconds))
    if arguments.json:
        arguments.json.write_text(json.dumps(seconds))


if __name__ == "__main__":
    main()
