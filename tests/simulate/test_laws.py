"""Laws that any queueing system obeys, and that a simulation must give the same each time."""

from __future__ import annotations

import asyncio
import json
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.bench.generator import Silent
from easerve.bench.session import Session
from easerve.bench.target import Target
from easerve.simulate.clock import run_virtually
from easerve.simulate.run import Simulation
from easerve.simulate.server import VirtualServer
from easerve.simulate.wire import VirtualWire
from tests.simulate.worlds import LinearCosts, plan, simulation

TOPOLOGIES: dict[str, dict[str, Any]] = {
    "aggregated": {"decoders": 2},
    "colocated": {"encoders": 2, "decoders": 2},
    "e-pd": {"encoders": 2, "decoders": 2},
    "e-p-d": {"encoders": 2, "prefillers": 2, "decoders": 2},
    "easerve": {"encoders": 2, "prefillers": 1, "decoders": 2, "partition": "static"},
}


def of(topology: str, costs: LinearCosts | None = None, **more: Any) -> Simulation:
    return simulation(costs, **{"topology": topology, **TOPOLOGIES[topology], **more})


async def sampled(given: Simulation, every: float, **load: Any) -> tuple[VirtualServer, list[int], Any]:
    """A run, with how many requests were in the pipeline at regular moments of it."""
    chosen, server, samples = plan(**load), given.server(), []
    session = Session(VirtualWire(server, 300.0), Target("", "", True, None), chosen, asyncio.Event())
    server.open()

    async def look() -> None:
        while True:
            await asyncio.sleep(every)
            samples.append(server.pipeline.admission.in_flight)

    looking = asyncio.create_task(look())
    run = await session.at_rate(chosen.load.rates[0], "run 1", Silent())  # type: ignore[union-attr]
    looking.cancel()
    server.close()
    return server, samples, run


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_as_many_are_in_the_pipeline_as_come_in_times_how_long_they_stay(topology: str) -> None:
    """Little's law, with a count that knows nothing of the requests' records."""
    _, samples, run = run_virtually(sampled(of(topology), 0.0107, rate=20.0, requests=200))
    records = run.observed.records
    arrivals = len(records) / run.observed.seconds
    assert fmean(samples) == pytest.approx(arrivals * fmean(record.e2e for record in records), rel=0.02)


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_report_is_the_same_each_time(topology: str) -> None:
    first, second = (of(topology).bench(plan(requests=30, warmup=2, unloaded=3)) for _ in range(2))
    assert [run.groups for run in first.runs] == [run.groups for run in second.runs]
    assert json.dumps([record.as_json() for record in first.runs[0].observed.records]) == json.dumps(
        [record.as_json() for record in second.runs[0].observed.records]
    )
    assert first.runs[0].utilisation == second.runs[0].utilisation
    other = of(topology).bench(plan(requests=30, warmup=2, unloaded=3, seed=2))
    assert other.runs[0].groups != first.runs[0].groups


def test_a_worker_with_work_is_never_idle() -> None:
    """All requests at once: the last token is out when the engine has been busy for so long."""
    run = of("aggregated", decoders=1).bench(plan("text-only", rate=1e6, requests=50)).runs[0]
    busy = run.utilisation.overall()[("worker-0", "prefill/decode")] * run.observed.seconds
    assert busy == pytest.approx(run.observed.seconds, rel=1e-3)


def test_a_lone_request_takes_what_its_stages_take() -> None:
    """Two pictures in a batch, their way, the prompt's prefill, the KV's way, and a step for each other token."""
    costs = LinearCosts()
    report = of("e-p-d", costs, encoders=1, prefillers=1).bench(plan(rate=0.01, requests=3))
    for record in report.runs[0].observed.records:
        media = 2 * 64 * costs.embedding_bytes_per_token / 1e9
        prompt = 2 * 64 + 64 + 8
        prefill = 0.005 + 0.0001 * prompt
        assert record.prompt_tokens == prompt
        assert record.ttft == pytest.approx(0.004 + 0.02 + media + prefill)
        rest = prompt * costs.kv_bytes_per_token / 1e9 + 31 * (0.005 + 0.0001)
        assert record.e2e - record.ttft == pytest.approx(rest)
        assert record.output_tokens == 32


@given(
    topology=st.sampled_from(sorted(TOPOLOGIES)),
    batching=st.sampled_from(["greedy", "gap", "count", "age", "control_limit"]),
    kv_tokens=st.sampled_from([700, 1500, 50_000]),
    cache=st.sampled_from([0.0, 0.5]),
    workload=st.sampled_from(["mixed", "repeated-media", "multi-turn", "text-only"]),
    rate=st.sampled_from([2.0, 40.0]),
    transfer=st.sampled_from(["shm", "nixl"]),
    seed=st.integers(0, 5),
)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_every_request_is_answered_in_full_and_nothing_is_left(
    topology: str, batching: str, kv_tokens: int, cache: float, workload: str, rate: float, transfer: str, seed: int
) -> None:
    deployment = {"batching": batching, "embedding_cache_gb": cache, "transfer": transfer, "max_batched_tokens": 256}
    given_ = of(topology, LinearCosts(kv_tokens=kv_tokens), **deployment)
    server, _, run = run_virtually(sampled(given_, 1.0, workload=workload, rate=rate, requests=40, seed=seed))
    records = run.observed.records
    assert [record.error for record in records] == [None] * 40
    assert {record.output_tokens for record in records} == {32}
    assert all(record.tokens == sorted(record.tokens) for record in records)
    pipeline = server.pipeline
    assert pipeline.cache.store.pinned == 0
    pipeline.cache.make_room()
    assert not server.memory.live
    for worker in server.workers.values():
        assert not any(desk.has_work() for desk in worker.desks)
