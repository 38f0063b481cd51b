"""A whole server whose encode worker shares its cores."""

from __future__ import annotations

import asyncio

import pytest

from easerve.bench.generator import Silent
from easerve.bench.plan import Closed, Plan
from easerve.bench.session import Session
from easerve.bench.target import client, discover
from easerve.bench.wire import HttpWire
from easerve.bench.workloads.drawn import Drawn
from easerve.config import Deployment, WorkerEntry
from easerve.server import Server, running
from easerve.workers.process import HEARTBEAT_SECONDS
from tests.server.test_stage_metrics import values
from tests.server.traffic import answers, assert_nothing_is_held, mixed

from .conftest import two_cores
from .scripts import TokenPace

PLAN = Plan("small pictures", Drawn(size=(56, 56), output_tokens=48), Closed(1), seed=0, requests=8, unloaded=0)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@two_cores
async def test_a_partitioned_worker_answers_and_tells_of_its_share() -> None:
    deployment = Deployment(
        partition="static",
        embedding_cache_gb=0,
        workers=(
            WorkerEntry(stages=("encode", "prefill"), device="cpu:0,1"),
            WorkerEntry(stages=("prefill",), device="cpu:1"),
            WorkerEntry(stages=("decode",), device="cpu:1"),
        ),
    )
    questions = mixed(12, seed=4)
    async with running(deployment, lambda *_: None) as server:
        texts = await answers(server, questions, 8)
        await assert_nothing_is_held(server)
        found = await _after_a_heartbeat(server)
        pace = await _pace(server)
    right = [text == example.answer for text, example in zip(texts, questions, strict=True)]
    assert sum(right) >= len(questions) - 2  # a picture mistaken for another would show
    assert found['easerve_encode_units{worker="encode-0"}'] == 1
    assert (
        0
        < found['easerve_encode_batches_apart_total{worker="encode-0"}']
        <= found['easerve_worker_items_encoded_total{worker="encode-0"}']
    )
    assert found['easerve_partition_switches_total{worker="encode-0"}'] == 0
    assert found['easerve_prefill_routed_total{where="local"}'] > 0
    assert pace.least > 0
    assert pace.credible, pace  # tokens leave as decode makes them, whatever encode and prefill do with their cores


async def _after_a_heartbeat(server: Server) -> dict[str, float]:
    """What the worker counts, once it has told of the first batch it encoded on its share."""
    async with asyncio.timeout(10):
        while not (found := await values(server))['easerve_encode_units{worker="encode-0"}']:
            await asyncio.sleep(0.1)
    return found


async def _pace(server: Server) -> TokenPace:
    """Of requests one at a time, from a moment at which workers have told of all they did."""
    await asyncio.sleep(2 * HEARTBEAT_SECONDS)
    async with client(server.url, None) as http:
        target = await discover(http, None)
        wire = HttpWire(http, target, ignore_eos=True, timeout=60)
        return TokenPace.of(await Session(wire, target, PLAN, asyncio.Event()).at_concurrency(1, "pace", Silent()))
