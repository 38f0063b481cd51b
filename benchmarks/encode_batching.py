"""What batching encode is worth on this machine, what waiting for a batch costs, and that no picture is encoded twice.

    python benchmarks/encode_batching.py

Three colocated servers, turn by turn: one item a forward, and up to eight with the rules `greedy` and `gap`. Small
pictures (56 to 84 pixels a side) and the largest the built-in model takes (196), under a closed loop that saturates the
server and under Poisson arrivals. All pictures are different and there is no cache. Then a burst of 200 requests over
ten pictures, with the cache.

Items per second *of encode* are those of the worker's busy time; ratios are to one item a forward, round by round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from random import Random
from statistics import mean, median
from typing import Any

from easerve.config import Deployment
from easerve.pipeline.timing import ItemTimes
from easerve.request import EmbeddingRef, MediaItem
from easerve.server import Server, running
from load import Client, body, client, closed_loop, metrics, open_loop, pictures, poisson, quantile

SMALL, LARGE = (56, 84), (196, 196)
VARIANTS: dict[str, dict[str, Any]] = {
    "one": {"encode_batch": 1},
    "greedy": {"batching": "greedy"},
    "gap": {"batching": "gap"},
}
LEAD_SECONDS = 0.5  # of a closed loop before and after what is counted


@dataclass(frozen=True)
class Workload:
    """`rate` is of requests per second; 0: as many as are answered, `in_flight` at a time."""

    sides: tuple[int, int]
    pictures: int  # of a request
    rate: float = 0.0
    in_flight: int = 0

    @property
    def name(self) -> str:
        sides = f"{self.sides[0]}-{self.sides[1]}" if self.sides[0] < self.sides[1] else str(self.sides[0])
        load = f"{self.rate:g} requests/s" if self.rate else f"{self.in_flight} requests in flight"
        return f"{sides} px, {self.pictures} a request, {load}"

    def bodies(self, requests: int, seed: int) -> list[bytes]:
        drawn = pictures(requests * self.pictures, self.sides, Random(seed))
        return [
            body("how many shapes are there ?", list(islice(drawn, self.pictures)), max_tokens=1)
            for _ in range(requests)
        ]


WORKLOADS = (
    Workload(SMALL, 8, in_flight=4),
    Workload(LARGE, 8, in_flight=4),
    Workload(SMALL, 8, rate=4),
    Workload(SMALL, 1, rate=30),
    Workload(LARGE, 1, rate=15),
)


@dataclass(frozen=True)
class Phase:
    """What one phase showed."""

    per_busy_second: float  # items
    per_second: float  # items
    batch: float  # mean items
    waits_ms: list[float]  # of items, from their submission to the start of their batch
    ttft_ms: float  # median; 0 for a closed loop


class Watch:
    """Stands before a server's encode pool and keeps the times of every item."""

    def __init__(self, server: Server) -> None:
        pool = server.pipeline.encode_pool
        self.server = server
        self._encode = pool.encode
        self._times: list[ItemTimes] = []
        pool.encode = self.encode  # type: ignore[method-assign]

    async def encode(self, item: MediaItem, latest_start: float = math.inf) -> tuple[EmbeddingRef, ItemTimes]:
        embedding, times = await self._encode(item, latest_start)
        self._times.append(times)
        return embedding, times

    async def phase(self, workload: Workload, run: Client, bodies: Sequence[bytes], seconds: float, seed: int) -> Phase:
        ttfts: list[float] = []
        if workload.rate:
            arrivals = list(poisson(workload.rate, seconds, Random(seed)))
            load = run(open_loop, self.server.url, bodies, arrivals)
        else:
            load = run(closed_loop, self.server.url, bodies, workload.in_flight, seconds + 2 * LEAD_SECONDS)
            await asyncio.sleep(LEAD_SECONDS)
        self._times.clear()
        started = time.perf_counter()
        if workload.rate:
            ttfts = [ttft for ttft, _ in await load]
        else:
            await asyncio.sleep(seconds)
        times, wall = self._times.copy(), time.perf_counter() - started
        await load
        if not times:
            raise SystemExit(f"no picture was encoded in {wall:.1f} s of a phase; give more --seconds")
        return Phase(
            per_busy_second=len(times) / sum(one.encode / one.batch for one in times),
            per_second=len(times) / wall,
            batch=len(times) / sum(1 / one.batch for one in times),
            waits_ms=[one.queue * 1000 for one in times],
            ttft_ms=median(ttfts) if ttfts else 0.0,
        )


Found = dict[str, dict[str, list[Phase]]]  # by workload and variant, one a round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each phase")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found, repeated = asyncio.run(_measure(arguments.rounds, arguments.seconds))
    if arguments.json:
        print(json.dumps({"phases": _as_json(found), "repeated": repeated}, indent=2))
        return
    print(f"medians of {arguments.rounds} rounds (lowest to highest); ratios to one item a forward")
    for name, variants in found.items():
        print(name)
        for variant, phases in variants.items():
            print(f"  {variant:7s}{_line(phases, variants['one'])}")
    print(
        "repeated pictures:", ", ".join(f"{count:g} {what}" for what, count in repeated.items()), "(wanted: 10 encoded)"
    )


def _as_json(found: Found) -> dict[str, Any]:
    return {
        name: {variant: [asdict(phase) for phase in phases] for variant, phases in variants.items()}
        for name, variants in found.items()
    }


def _line(phases: list[Phase], base: list[Phase]) -> str:
    waits = [wait for phase in phases for wait in phase.waits_ms]
    pairs = list(zip(phases, base, strict=True))
    busy = [mine.per_busy_second / other.per_busy_second for mine, other in pairs]
    wall = [mine.per_second / other.per_second for mine, other in pairs]
    speed, batch, ttft = (
        median(getattr(phase, name) for phase in phases) for name in ("per_busy_second", "batch", "ttft_ms")
    )
    line = f"{speed:6.1f} items/s of encode {_spread(busy)}   batch {batch:3.1f}   "
    line += f"wait {mean(waits):5.1f}, P99 {quantile(waits, 0.99):5.1f} ms   "
    return line + (f"TTFT P50 {ttft:5.1f} ms" if ttft else f"server {_spread(wall)}")


def _spread(values: Sequence[float]) -> str:
    return f"x{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


async def _measure(rounds: int, seconds: float) -> tuple[Found, dict[str, float]]:
    found: Found = {workload.name: {variant: [] for variant in VARIANTS} for workload in WORKLOADS}
    bodies = {workload: workload.bodies(512 // workload.pictures, seed) for seed, workload in enumerate(WORKLOADS)}
    async with client() as run:
        async with AsyncExitStack() as exits:
            watches = {}
            for variant, fields in VARIANTS.items():
                deployment = Deployment(device="cpu", topology="colocated", embedding_cache_gb=0, **fields)
                watches[variant] = Watch(await exits.enter_async_context(running(deployment, lambda *_: None)))
            for turn in range(rounds + 1):  # the first warms up
                for workload in WORKLOADS:
                    print(f"round {turn} of {rounds}: {workload.name}", file=sys.stderr)
                    for variant, watch in watches.items():
                        phase = await watch.phase(workload, run, bodies[workload], seconds if turn else 1.0, turn)
                        if turn:
                            found[workload.name][variant].append(phase)
        print("repeated pictures", file=sys.stderr)
        return found, await _repeated(run)


async def _repeated(run: Client) -> dict[str, float]:
    """How often the pictures of a burst were encoded, and where the others' embeddings came from."""
    drawn = Workload(LARGE, 1).bodies(10, 100)
    async with running(Deployment(device="cpu", topology="colocated"), lambda *_: None) as server:
        await run(open_loop, server.url, drawn, [0.0] * 200)
        await asyncio.sleep(1.2)  # heartbeats tell of the worker's counts
        seen = await metrics(server)
    sources = {one: seen[f'media_items_total{{source="{one}"}}'] for one in ("encoded", "joined", "cached")}
    return {**sources, "items by the worker's own count": seen["worker_items_encoded_total"]}


if __name__ == "__main__":
    main()
