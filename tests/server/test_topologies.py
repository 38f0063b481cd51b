"""Every topology, transfer, batching rule and offload ratio gives the same answers, in a crowd as alone."""

from __future__ import annotations

from typing import Any

import pytest

from easerve.config import WorkerEntry
from easerve.server import Server, running

from .conftest import deployment
from .traffic import answers, assert_nothing_is_held, mixed

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTIONS = mixed(200, seed=3)
SHAPES: dict[str, dict[str, Any]] = {
    "aggregated, two workers": {"topology": "aggregated", "decoders": 2, "batching": "count", "encode_batch": 4},
    "e-pd, two and two": {
        "topology": "e-pd",
        "encoders": 2,
        "decoders": 2,
        "batching": "gap",
        "placement": "round_robin",
        "transfer": "zmq",
    },
    "e-p-d": {"topology": "e-p-d", "batching": "age", "transfer": "nixl", "embedding_cache_gb": 0},
    "e-p-d, two decoders": {"topology": "e-p-d", "decoders": 2, "batching": "smdp", "encode_tokens": 60},
    "easerve": {"topology": "easerve", "batching": "control_limit", "remote_ratio": 0.5},
    "easerve, all local": {"topology": "easerve", "remote_ratio": 0.0, "transfer": "zmq", "embedding_cache_gb": 1e-5},
    "easerve, token deficit": {
        "topology": "easerve",
        "offload": "token_deficit",
        "encoders": 2,
        "prefillers": 0,
        "transfer": "nixl",
        "prefix_cache": False,
    },
    "listed": {
        "workers": (
            WorkerEntry(stages=("encode",), device="cpu:0", count=2),
            WorkerEntry(stages=("encode", "prefill"), device="cpu:0"),
            WorkerEntry(stages=("prefill", "decode"), device="cpu:1"),
            WorkerEntry(stages=("decode",), device="cpu:1"),
        )
    },
}


@pytest.fixture(scope="module")
def wanted() -> dict[str, list[str]]:
    return {}


async def _alone(colocated: Server, kept: dict[str, list[str]]) -> list[str]:
    """Answers one by one, in the plainest topology."""
    if not kept:
        distinct = {id(example): example for example in QUESTIONS}
        texts = dict(zip(distinct, await answers(colocated, list(distinct.values()), 1), strict=True))
        kept["answers"] = [texts[id(example)] for example in QUESTIONS]
        right = sum(text == example.answer for text, example in zip(kept["answers"], QUESTIONS, strict=True))
        assert right >= 0.95 * len(QUESTIONS)
    return kept["answers"]


@pytest.mark.parametrize("shape", SHAPES)
async def test_200_mixed_requests_in_flight_answer_as_alone(
    shape: str, colocated: Server, wanted: dict[str, list[str]]
) -> None:
    expected = await _alone(colocated, wanted)
    async with running(deployment(**SHAPES[shape]), lambda *_: None) as server:
        got = await answers(server, QUESTIONS, 200)
        assert [text for text, other in zip(got, expected, strict=True) if text != other] == []
        await assert_nothing_is_held(server)
