"""What deciding and switching cost."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import torch

from easerve.engine.partition.base import Partition
from easerve.policy.partition import Dynamic, EncodeProfile
from gpu_checks.setting import Setting

RUNS = 500


def measure(setting: Setting, partition: Partition) -> dict[str, Any]:
    """Microseconds: a lookup, and a small piece of work that stays where it was or moves every time."""
    shares: list[int | None] = [*partition.choices[:1], None]
    tensor = torch.ones(1024, device=setting.device)

    def small() -> None:
        tensor.add_(1)

    stays = _microseconds(lambda held: partition.encode(None, small), itertools.repeat(None))
    moves = _microseconds(lambda held: partition.encode(held, small), itertools.cycle(shares))
    return {
        "lookup_us": _lookup(partition),
        "piece_that_stays_us": stays,
        "piece_that_moves_us": moves,
        "switch_us": moves["median"] - stays["median"],
    }


def _lookup(partition: Partition) -> dict[str, float]:
    units = (*partition.choices, partition.whole)
    rows = tuple(tuple(0.01 + items / count for count in units) for items in range(1, 17))
    rule = Dynamic(EncodeProfile(tuple(range(1, 17)), units, rows))
    return _microseconds(lambda items: rule.during(items, 50.0), itertools.cycle(range(1, 17)))


def _microseconds(run: Callable[[Any], object], arguments: Any) -> dict[str, float]:
    times = []
    for argument in itertools.islice(arguments, RUNS):
        started = time.perf_counter()
        run(argument)
        times.append(1e6 * (time.perf_counter() - started))
    return {"median": median(times), "p99": quantiles(times, n=100)[98]}
