"""The pipeline's encode queue in virtual time against queueing theory."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from statistics import fmean

import pytest

from easerve.pipeline.encode import EncodePolicy, EncodePool
from easerve.pipeline.observer import Observer
from easerve.pipeline.timing import ItemTimes
from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching import Batcher, BatchOptions, make_rule
from easerve.policy.placement import LeastPending
from easerve.policy.service import ServiceTime
from easerve.request import MediaItem
from easerve.simulate.clock import run_virtually
from easerve.simulate.run import Simulation
from easerve.simulate.server import VirtualServer
from tests.simulate.worlds import LinearCosts, simulation

SERVICE = 0.01  # seconds


def poisson(rate: float, number: int, seed: int) -> list[float]:
    rng = Random(seed)
    return list(accumulate(rng.expovariate(rate) for _ in range(number)))


async def encoded(given: Simulation, arrivals: Sequence[float], rate: ArrivalRate | None = None) -> list[ItemTimes]:
    """How each item, sent at its moment, fared at the encode pool; with a `rate` that is known beforehand if given."""
    server = given.server()
    server.open()
    pool = server.pipeline.encode_pool if rate is None else with_known_rate(server, rate)
    if rate is not None:
        pool.add_worker(server.workers["encode-0"])

    async def one(number: int, moment: float) -> ItemTimes:
        await asyncio.sleep(moment)
        ref = server.memory.put("front-end", 1)
        item = MediaItem(key=f"{number}", modality="image", height=28, width=28, tokens=1, offset=0, pixels=ref)
        embedding, times = await pool.encode(item)
        pool.release(embedding)
        server.memory.release(ref)
        return times

    times = await asyncio.gather(*(one(*each) for each in enumerate(arrivals)))
    server.close()
    assert not server.memory.live
    return times


def with_known_rate(server: VirtualServer, rate: ArrivalRate) -> EncodePool:
    deployment, service = server.deployment, ServiceTime()
    rule = make_rule(deployment.batching, deployment.batch_options, rate, service)
    policy = EncodePolicy(Batcher(rule, deployment.encode_batch), rate, service, LeastPending(), 10**6)
    return EncodePool(policy, server.memory, Observer())


def one_at_a_time() -> Simulation:
    costs = LinearCosts(encode_alpha=0.0, encode_beta=SERVICE)
    return simulation(costs, topology="e-pd", encode_batch=1, max_encode_queue=10**6)


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_a_worker_that_takes_one_item_at_a_time_is_never_idle_while_one_waits(load: float) -> None:
    """Lindley's recursion, item by item."""
    arrivals = poisson(load / SERVICE, 3000, seed=3)
    waited = [times.queue for times in run_virtually(encoded(one_at_a_time(), arrivals))]
    free, expected = 0.0, []
    for moment in arrivals:
        start = max(moment, free)
        expected.append(start - moment)
        free = start + SERVICE
    assert waited == pytest.approx(expected, abs=1e-9)


def test_the_mean_wait_is_that_of_an_m_d_1_queue() -> None:
    """Up to the statistical error of so many items, 2 %; item by item see above."""
    load = 0.5
    arrivals = poisson(load / SERVICE, 24_000, seed=0)
    waited = [times.queue for times in run_virtually(encoded(one_at_a_time(), arrivals))]
    assert fmean(waited) == pytest.approx(load * SERVICE / (2 * (1 - load)), rel=0.02)


@pytest.mark.parametrize(("factor", "bound"), [(1.0, 8), (0.5, 4), (2.0, 8)])
def test_gap_batching_has_the_sizes_and_holds_of_its_closed_form(factor: float, bound: int) -> None:
    """For an idle worker: q = 1 - e^-c, E[K] = (1 - q^B) / (1 - q), E[hold] = (E[K] - 1) / rate."""
    rate = 10.0
    instant = LinearCosts(encode_alpha=0.0, encode_beta=1e-12)
    given = simulation(instant, topology="e-pd", batching="gap", gap_factor=factor, encode_batch=bound, age_cap=1e6)
    known = ArrivalRate(configured_rate=rate, eta=1e-12)
    times = run_virtually(encoded(given, poisson(rate, 16_000, seed=2), known))
    batches = sum(1 / one.batch for one in times)
    q = 1 - math.exp(-factor)
    size = (1 - q**bound) / (1 - q)
    assert len(times) / batches == pytest.approx(size, rel=0.02)
    holds: list[float] = []
    left = 0
    for one in times:  # in order: the first of a batch has waited longest
        if left == 0:
            holds.append(one.queue)
            left = one.batch
        left -= 1
    assert fmean(holds) == pytest.approx((size - 1) / rate, rel=0.02)


def test_batch_options_are_what_the_deployment_says() -> None:
    """Guards the helper above, which wires a pool of its own."""
    given = simulation(topology="e-pd", batching="gap", gap_factor=0.7, encode_batch=3, age_cap=2.0)
    assert given.deployment.batch_options == BatchOptions(gap_factor=0.7, age_cap=2.0, max_items=3)
