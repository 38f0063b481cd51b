"""What the decisions on every request's way cost, in microseconds.

    python benchmarks/policies.py

Per arrival: the rate is told, the item queued, the batcher asked when it is due, and the item's
share of taking its batch.
Per decision: one choice among four workers, one between local and remote. Per lookup: a hit in the embedding cache and
its unpin. The fastest of several rounds is shown, so that a busy machine counts less.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from random import Random

from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching import RULES, Batcher, BatchOptions, make_rule
from easerve.policy.cache import ByteLRU
from easerve.policy.offload import OFFLOADS, make_offload
from easerve.policy.placement import PLACEMENTS, Load
from easerve.policy.service import ServiceTime

ARRIVAL_BOUND_US = 3.0
ROUTER_BOUND_US = 1.0
CACHE_BOUND_US = 5.0
RATE = 50.0  # arrivals per second
ROUNDS = 7

Round = Callable[[int], float]  # seconds that so many repetitions took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=20_000, help="repetitions in each round")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = {name: _fastest(run, arguments.repeat) for name, run in _measured().items()}
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for name, microseconds in found.items():
        print(f"{name:24s} {microseconds:6.2f} us   wanted <= {_bound(name):g} us")


def _measured() -> dict[str, Round]:
    return {
        **{f"arrival, {name}": _arrivals(name) for name in RULES},
        "arrival, gap, deadlines": _arrivals("gap", with_deadlines=True),
        **{f"router, {name}": _placement(name) for name in PLACEMENTS},
        **{f"router, {name}": _offload(name) for name in OFFLOADS},
        "cache, lookup and unpin": _cache,
    }


def _bound(name: str) -> float:
    group, _, _ = name.partition(",")
    return {"arrival": ARRIVAL_BOUND_US, "router": ROUTER_BOUND_US, "cache": CACHE_BOUND_US}[group]


def _fastest(run: Round, repeat: int) -> float:
    run(repeat)  # to warm up
    return min(run(repeat) for _ in range(ROUNDS)) / repeat * 1e6


def _arrivals(rule: str, *, with_deadlines: bool = False) -> Round:
    random = Random(0)
    rate, service = ArrivalRate(configured_rate=RATE), ServiceTime(0.02, 0.005)
    batcher: Batcher[int] = Batcher(make_rule(rule, BatchOptions(), rate, service), 8, 8192)
    now = 0.0

    def run(repeat: int) -> float:
        nonlocal now
        times = []
        for _ in range(repeat):
            now += random.expovariate(RATE)
            times.append((now, now + 0.2 if with_deadlines else math.inf))
        started = time.perf_counter()
        for at, latest in times:
            rate.observe(at)
            batcher.push(0, at, 196, latest)
            due = batcher.ready_at()
            if due is not None and due <= at:
                batcher.take(at)
        return time.perf_counter() - started

    return run


def _placement(name: str) -> Round:
    placement = PLACEMENTS[name]()
    loads = {f"generate-{index}": Load(100.0 * index, 1000.0) for index in range(4)}

    def run(repeat: int) -> float:
        started = time.perf_counter()
        for _ in range(repeat):
            placement.choose(loads, 300.0)
        return time.perf_counter() - started

    return run


def _offload(name: str) -> Round:
    offload = make_offload(name, 0.3)

    def run(repeat: int) -> float:
        started = time.perf_counter()
        for _ in range(repeat):
            offload.decide("image", 300)
        return time.perf_counter() - started

    return run


def _cache(repeat: int) -> float:
    cache: ByteLRU[int] = ByteLRU(1000)
    keys = [f"{number:064x}" for number in range(1000)]
    for key in keys:
        cache.insert(key, 0, 1)
        cache.unpin(key)
    picks = Random(0).choices(keys, k=repeat)
    started = time.perf_counter()
    for key in picks:
        cache.lookup(key)
        cache.unpin(key)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
