"""What pictures of others do to requests without any: TTFT beside a saturated encoder, over TTFT on an idle server.

    python benchmarks/interference.py

Text requests come in an open loop, at the same moments in every phase of a round; TTFT counts from the moment a request
was due to its first token at the client. Under load, image requests in a closed loop, with different pictures and
without a cache, keep encode busy. Phases alternate: idle and loaded, colocated and aggregated, round after round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from random import Random
from statistics import median
from typing import Any, Literal

from easerve.builtin import scenes
from easerve.config import Deployment
from easerve.server import Server, running
from load import Timing, body, client, closed_loop, metrics, open_loop, pictures, poisson, quantile

Topology = Literal["colocated", "aggregated"]
TOPOLOGIES: tuple[Topology, ...] = ("colocated", "aggregated")
BOUND = 2.0  # P99 loaded over idle, colocated
LEAD_SECONDS = 1.0  # of image load before the first text request of a phase, and after the last
DISTINCT = 256  # pictures: many more than are in flight


@dataclass
class Phases:
    """All phases of one kind, one entry a round."""

    ttfts_ms: list[list[float]] = field(default_factory=list)
    first_token_ms: list[list[float]] = field(default_factory=list)  # as the server sees it
    prefill_ms: list[list[float]] = field(default_factory=list)  # of which in the engine
    encode_busy: list[float] = field(default_factory=list)  # share of the phase
    pictures_per_s: list[float] = field(default_factory=list)

    def ttft(self, share: float) -> float:
        return _together(self.ttfts_ms, share)


Found = dict[tuple[Topology, bool], Phases]  # by topology and whether loaded


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=11.0, help="of text requests in each phase")
    parser.add_argument("--rate", type=float, default=8.0, help="text requests per second, Poisson arrivals")
    parser.add_argument("--concurrency", type=int, default=24, help="image requests in flight, of one picture each")
    parser.add_argument("--side", type=int, default=196, help="of the pictures in pixels")
    parser.add_argument("--step-tokens", type=int, help="most tokens in one engine step (default: the server's)")
    parser.add_argument("--encode-tokens", type=int, help="most tokens in one encode batch (default: the server's)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    found = asyncio.run(_measure(arguments))
    if arguments.json:
        print(json.dumps(_as_json(found), indent=2))
        return
    print(f"TTFT of {arguments.rate:g} text requests/s, {arguments.rounds} rounds: ms at client (in server, in engine)")
    for key, phases in found.items():
        p50, p99 = (
            [_together(part, share) for part in (phases.ttfts_ms, phases.first_token_ms, phases.prefill_ms)]
            for share in (0.5, 0.99)
        )
        print(f"  {_name(*key):19s} P50 {_parts(p50)}   P99 {_parts(p99)}   ", end="")
        print(f"encode busy {median(phases.encode_busy):4.0%}, {median(phases.pictures_per_s):5.1f} pictures/s")
    print("loaded / idle, rounds together (lowest to highest round)")
    for topology in TOPOLOGIES:
        wanted = f"   wanted <= {BOUND:g}" if topology == "colocated" else ""
        ratios = [_shown(found, topology, share) for share in (0.5, 0.99)]
        print(f"  {topology:19s} P50 {ratios[0]}   P99 {ratios[1]}{wanted}")


async def _measure(arguments: argparse.Namespace) -> Found:
    rng = Random(0)
    texts = [body(scenes.small_sum(rng, held_out=False).text, stream=True) for _ in range(64)]
    side = (arguments.side, arguments.side)
    images = [body("how many shapes are there ?", [url]) for url in pictures(DISTINCT, side, rng)]
    found: Found = {(topology, loaded): Phases() for topology in TOPOLOGIES for loaded in (False, True)}
    async with AsyncExitStack() as exits:
        clients = [await exits.enter_async_context(client()) for _ in range(2)]
        servers = {}
        for topology in TOPOLOGIES:
            deployment = Deployment(
                device="cpu",
                topology=topology,
                embedding_cache_gb=0,
                max_batched_tokens=arguments.step_tokens,
                encode_tokens=arguments.encode_tokens,
            )
            servers[topology] = await exits.enter_async_context(running(deployment, lambda *_: None))
        for turn in range(arguments.rounds + 1):  # the first warms up
            seconds = arguments.seconds if turn else 3.0
            arrivals = list(poisson(arguments.rate, seconds, Random(turn)))
            for (topology, loaded), phases in found.items():
                print(f"round {turn} of {arguments.rounds}: {_name(topology, loaded)}", file=sys.stderr)
                url, load = servers[topology].url, None
                if loaded:
                    load = clients[1](closed_loop, url, images, arguments.concurrency, seconds + 2 * LEAD_SECONDS)
                    await asyncio.sleep(LEAD_SECONDS)
                await _phase(
                    servers[topology], clients[0](open_loop, url, texts, arrivals), phases if turn else Phases()
                )
                if load is not None:
                    await load
    return found


async def _phase(server: Server, load: asyncio.Future[list[tuple[float, Timing]]], into: Phases) -> None:
    started, before = time.perf_counter(), await metrics(server)
    answers = await load
    wall, after = time.perf_counter() - started, await metrics(server)
    into.ttfts_ms.append([ttft for ttft, _ in answers])
    into.first_token_ms.append([timing["first_token"] for _, timing in answers])
    into.prefill_ms.append([timing["prefill_queue"] + timing["prefill"] for _, timing in answers])
    seconds, items = "encode_batch_seconds_sum", "encode_batch_items_sum"
    into.encode_busy.append((after[seconds] - before[seconds]) / wall)
    into.pictures_per_s.append((after[items] - before[items]) / wall)


def _parts(times: Sequence[float]) -> str:
    return "{:5.1f} ({:5.1f}, {:5.1f})".format(*times)


def _together(rounds: list[list[float]], share: float) -> float:
    return quantile([value for one in rounds for value in one], share)


def _by_round(found: Found, topology: Topology, share: float) -> list[float]:
    """Loaded over idle."""
    pairs = zip(found[topology, True].ttfts_ms, found[topology, False].ttfts_ms, strict=True)
    return [quantile(loaded, share) / quantile(idle, share) for loaded, idle in pairs]


def _ratio(found: Found, topology: Topology, share: float) -> float:
    return found[topology, True].ttft(share) / found[topology, False].ttft(share)


def _shown(found: Found, topology: Topology, share: float) -> str:
    each = _by_round(found, topology, share)
    return f"{_ratio(found, topology, share):.2f} ({min(each):.2f} to {max(each):.2f})"


def _name(topology: Topology, loaded: bool) -> str:
    return f"{topology}, {'loaded' if loaded else 'idle'}"


def _as_json(found: Found) -> dict[str, Any]:
    phases = {
        _name(*key): {"p50_ms": one.ttft(0.5), "p99_ms": one.ttft(0.99), **asdict(one)} for key, one in found.items()
    }
    ratios = {
        f"{topology}, P{share * 100:g}": {
            "together": _ratio(found, topology, share), "by_round": _by_round(found, topology, share),
        }
        for topology in TOPOLOGIES
        for share in (0.5, 0.99)
    }  # fmt: skip
    return {"phases": phases, "loaded_over_idle": ratios}


if __name__ == "__main__":
    main()
