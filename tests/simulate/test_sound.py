"""Clips of sound through the pipeline in virtual time, and what cannot take them."""

from __future__ import annotations

import httpx
import pytest

from easerve.bench.clips import RATE
from easerve.bench.request import Request, user_message
from easerve.bench.target import Target
from easerve.bench.wire import HttpWire
from easerve.config import Deployment
from easerve.costs.pictures import audio_size
from easerve.errors import BadRequest
from easerve.search.sampling import sample
from easerve.simulate.machines import Machines
from easerve.simulate.requests import Clip
from easerve.simulate.run import Simulation
from tests.simulate.worlds import plan

MODEL = "ultravox-27b"


@pytest.mark.parametrize("topology", ["easerve", "e-pd", "aggregated"])
def test_sound_is_served_as_long_as_its_encoder_makes_it(topology: str) -> None:
    """Of 10 s come as many tokens as the shape says, beside those of the text."""
    world = Machines("a100").world(MODEL)
    load = plan("audio", rate=2.0, requests=12, settings=("shortest=10", "longest=10", "clips=2"))
    deployment = Deployment(model=MODEL, topology=topology, partition="dynamic" if topology == "easerve" else "none")
    report = Simulation(deployment, world).bench(load)
    [run] = report.runs
    assert run.all.completed == 12
    tokens = audio_size(MODEL)(10.0).tokens
    text = sample(load.workload, world).shape.prompt_tokens - 2 * tokens
    assert {record.prompt_tokens for record in run.observed.records} == {text + 2 * tokens}
    assert {record.modality for record in run.observed.records} == {"audio"}


def test_longer_clips_take_longer_to_encode() -> None:
    world = Machines("a100").world(MODEL)
    [worker] = Simulation(Deployment(model=MODEL, topology="aggregated"), world).plans()
    costs = world.costs(worker)
    seconds = [costs.encode([world.item(Clip("a", length * RATE))]) for length in (1, 10, 30, 60)]
    assert seconds == sorted(seconds)
    assert seconds[3] > 1.5 * seconds[2]


@pytest.mark.parametrize(("model", "workload"), [(MODEL, "image-heavy"), ("qwen2.5-vl-7b", "audio")])
def test_a_model_refuses_what_it_does_not_take(model: str, workload: str) -> None:
    world = Machines("a100").world(model)
    with pytest.raises(BadRequest, match="the model takes"):
        sample(plan(workload).workload, world)
    report = Simulation(Deployment(model=model), world).bench(plan(workload, requests=2))
    assert report.runs[0].all.errors == {"http 400": 2}


async def test_easerve_is_not_sent_sound_and_others_are() -> None:
    request = Request([user_message("what is said ?", clips=["data:audio/wav;base64,AAAA"])], 5)
    async with httpx.AsyncClient() as http:
        ours, theirs = (
            HttpWire(http, Target("http://a", "m", own, "1"), ignore_eos=True, timeout=1) for own in (True, False)
        )
        with pytest.raises(BadRequest, match="no audio yet"):
            ours.prepare(request)
        assert b"audio_url" in theirs.prepare(request).content
