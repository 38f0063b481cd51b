"""Stage one reckons with the steps that trials and servers make."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.workloads import read_workload
from easerve.config import Deployment
from easerve.config.bounds import CPU_STEP_TOKENS
from easerve.config.deployment import STEP_TOKENS
from easerve.costs.base import ItemSize
from easerve.costs.profile_file import write_profile
from easerve.engine.torch.options import EngineOptions
from easerve.errors import BadRequest
from easerve.search.demand import Demand, Shape
from easerve.search.deploying import Machine
from easerve.search.loads import LoadModel
from easerve.search.question import Question
from tests.costs.test_profile import made_up

from .doubles import LinearCosts

SHAPE = Shape(1.0, ItemSize(1024, 256), 2000, 11)
HERE = Question(
    model="builtin",
    machine=Machine("cpu", 1),
    workload_name="image-heavy",
    workload=read_workload("image-heavy", ["size=56", "images=1"]),
    objectives=Objectives(),
    rate=1.0,
    arrivals=Arrivals(),
    requests=10,
    base=Deployment(),
)


def test_steps_are_as_large_as_the_deployments(tmp_path: Path) -> None:
    """Small on a CPU, unless the deployment says otherwise."""
    path = tmp_path / "profile.json"
    write_profile(made_up(), path)
    on_cpu = replace(HERE, profile=path)
    assert on_cpu.prepare().model.times(1).bounds.max_batched_tokens == CPU_STEP_TOKENS
    asked = replace(on_cpu, base=Deployment(max_batched_tokens=96, max_sequences=7)).prepare().model.times(1).bounds
    assert (asked.max_batched_tokens, asked.max_sequences) == (96, 7)
    pytest.importorskip("aiconfigurator_core")
    on_gpu = replace(HERE, model="qwen2.5-vl-7b", machine=Machine("a100", 2))
    assert on_gpu.prepare().model.times(1).bounds.max_batched_tokens == STEP_TOKENS


@pytest.mark.parametrize("rate", [math.nan, math.inf, 0.0, -1.0])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(BadRequest, match="rate"):
        replace(HERE, rate=rate).prepare()


def test_what_bounds_a_step_bounds_the_estimate() -> None:
    """Ten steps of 200 tokens instead of one of 2,000, each with its 10 ms, and two sequences at a time."""
    costs = LinearCosts(batch=0.05, step_base=0.01)
    demand = Demand(SHAPE, 1.0)
    large, small = (LoadModel({1: costs}, demand, bounds).times(1) for bounds in (
        EngineOptions(), EngineOptions(max_batched_tokens=200, max_sequences=2),
    ))  # fmt: skip
    assert small.first_token() - large.first_token() == pytest.approx(9 * 0.01, rel=0.2)
    assert (small.largest_batch(1.0), large.largest_batch(1.0)) == (2, 64)
