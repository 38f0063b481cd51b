"""A worker with encode beside local prefill: what it computes, and what it says of its device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from msgspec import structs

from easerve.config import Deployment, problems
from easerve.engine.base import NewSequence
from easerve.engine.partition.document import ShareDocument, model_name
from easerve.engine.partition.measure import Rows, ShareTimes
from easerve.engine.partition.opening import hardware_name
from easerve.engine.partition.options import PartitionOptions
from easerve.engine.torch.engine import TorchEncoder
from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.workers.loading import Engines
from easerve.workers.messages import Heartbeat
from easerve.workers.sharing import SharedDevice, share_device
from easerve.workers.spec import WorkerSpec, parse_device
from tests.engine.helpers import GREEDY, Parts
from tests.tiny_models import random_picture

from .conftest import two_cores

SIZES = [(56, 84), (112, 56), (56, 56)]


def _spec(qwen: Parts, **options: object) -> WorkerSpec:
    return WorkerSpec(
        name="encode-0",
        stages=("encode", "prefill"),
        device=parse_device("cpu:0"),
        model=str(qwen.folder),
        endpoint="",
        run_folder="",
        dtype="auto",
        engine=EngineOptions(),
        partition=PartitionOptions(**options),  # type: ignore[arg-type]
    )


def _engines(qwen: Parts) -> Engines:
    return Engines(TorchEncoder(qwen.encoder), qwen.engine())


def _answers(qwen: Parts, engines: Engines) -> list[int]:
    assert engines.encoder is not None and engines.language_model is not None
    made = engines.encoder.encode([random_picture(*size) for size in SIZES])
    plain = qwen.sequence("a", 30, SIZES)
    media = [(offset, embedding) for (offset, _), embedding in zip(plain.media, made, strict=True)]
    engines.language_model.add(NewSequence("a", plain.prompt, GREEDY, media))
    tokens = []
    while engines.language_model.has_work():
        tokens += [event.token_id for event in engines.language_model.step()]  # type: ignore[union-attr]
    return tokens


@two_cores
@pytest.mark.parametrize("name", ["none", "static", "dynamic"])
def test_a_partition_changes_no_token(qwen: Parts, name: str) -> None:
    plain = _answers(qwen, _engines(qwen))
    assert len(plain) == GREEDY.max_tokens
    told: list[str] = []
    shared = share_device(_spec(qwen, name=name, largest_batch=2, slack=100.0), _engines(qwen), told.append)
    assert _answers(qwen, shared.engines) == plain
    beat = shared.report(Heartbeat(0))
    assert (beat.encode_units, beat.batches_apart) == ((0, 0) if name == "none" else (1, 1))
    assert [text[-14:] for text in told if "by items" in text] == ["(measured now)"] * (name == "dynamic")


@two_cores
def test_a_table_is_used_as_it_is(qwen: Parts, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    table = _table(qwen, tmp_path, ((0.1, 0.1), (0.4, 0.2)))
    told: list[str] = []
    shared = share_device(_spec(qwen, name="dynamic", table=str(table)), _engines(qwen), told.append)
    assert told == [f"cores of {cores} for encode, by items: 1: 1, 2: all (partition table {table})"]
    assert shared.engines.encoder is not None
    for pictures, units in ((1, 1), (2, 0)):
        shared.engines.encoder.encode([random_picture(56, 56)] * pictures)
        assert shared.report(Heartbeat(0)).encode_units == units
    shared.engines.encoder.encode([random_picture(56, 112)])  # as large as two
    assert shared.report(Heartbeat(0)).encode_units == 0


@two_cores
def test_where_no_share_is_safe_the_worker_says_so_and_is_single_tenant(qwen: Parts, tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    table = _table(qwen, tmp_path, ((0.3, 0.1), (0.6, 0.2)))
    told: list[str] = []
    shared = share_device(_spec(qwen, name="dynamic", table=str(table)), _engines(qwen), told.append)
    assert told == [f"no share of {cores} cores is safe for encode: not partitioned (partition table {table})"]
    assert len(_answers(qwen, shared.engines)) == GREEDY.max_tokens
    assert shared.report(Heartbeat(0)).batches_apart == 0


@two_cores
def test_a_table_is_good_for_the_dtype_it_was_measured_in_whoever_chose_that(qwen: Parts, tmp_path: Path) -> None:
    table = _table(qwen, tmp_path, ((0.1, 0.1), (0.4, 0.2)))
    spec = _spec(qwen, name="dynamic", table=str(table))
    for dtype in ("auto", "float32"):  # the checkpoint's own
        share_device(structs.replace(spec, dtype=dtype), _engines(qwen), lambda text: None)
    with pytest.raises(StartupError, match=f"{table} was measured on other dtype: float32, and this is bfloat16"):
        share_device(structs.replace(spec, dtype="bfloat16"), _engines(qwen), lambda text: None)


def test_one_core_is_single_tenant_for_dynamic_and_too_little_for_static(qwen: Parts) -> None:
    told: list[str] = []
    shared = _on_one_core(_spec(qwen, name="dynamic", largest_batch=1), qwen, told)
    assert told == ["one core cannot be split: not partitioned"]
    assert len(_answers(qwen, shared.engines)) == GREEDY.max_tokens
    with pytest.raises(StartupError, match=r"one core cannot be split.*--partition none"):
        _on_one_core(_spec(qwen, name="static"), qwen, told)


def test_an_engine_with_ways_of_its_own_is_not_partitioned(qwen: Parts) -> None:
    told: list[str] = []
    spec = structs.replace(_spec(qwen, name="auto"), engine_name="vllm")
    shared = share_device(spec, _engines(qwen), told.append)
    assert told == ["not partitioned: vllm chooses its own threads and streams, which no partition can move"]
    assert len(_answers(qwen, shared.engines)) == GREEDY.max_tokens


def test_auto_does_without_what_is_not_there_and_says_so(qwen: Parts, tmp_path: Path) -> None:
    missing = str(tmp_path / "none.json")
    told: list[str] = []
    shared = share_device(_spec(qwen, name="auto", table=missing), _engines(qwen), told.append)
    assert told == [f"not partitioned: partition table {missing}: No such file or directory"]
    assert len(_answers(qwen, shared.engines)) == GREEDY.max_tokens
    with pytest.raises(StartupError, match="No such file"):
        share_device(_spec(qwen, name="dynamic", table=missing), _engines(qwen), told.append)


def test_where_nothing_is_prefilled_beside_encode_there_is_no_partition() -> None:
    assert Deployment(partition="dynamic").partition_options.name == "dynamic"
    assert Deployment(partition="dynamic", remote_ratio=1).partition_options.name == "none"
    assert Deployment(partition="dynamic", offload="none").partition_options.name == "none"


def test_a_partition_without_stages_to_share_a_device_is_a_fault_of_the_deployment() -> None:
    assert "nothing to share" in " ".join(problems(Deployment(topology="e-pd", partition="static")))
    assert problems(Deployment(topology="e-pd", partition="auto")) == []
    assert problems(Deployment(topology="easerve", partition="static")) == []


def _table(qwen: Parts, folder: Path, rows: Rows) -> Path:
    """Seconds of one and two items on one core and on all, for this machine and model."""
    times = ShareTimes((1, 2), (1, len(os.sched_getaffinity(0))), rows, rows, (1.0, 1.0), 1.0)
    document = ShareDocument(
        hardware_name(torch.device("cpu")), model_name(qwen.folder), "float32", "core", side=56, times=times
    )
    document.write(folder / "shares.json")
    return folder / "shares.json"


def _on_one_core(spec: WorkerSpec, qwen: Parts, told: list[str]) -> SharedDevice:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        return share_device(spec, _engines(qwen), told.append)
    finally:
        os.sched_setaffinity(0, before)
