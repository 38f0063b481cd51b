"""Deployments: presets on whatever devices there are, files that read back, and faults told by place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from easerve.bench.workloads import NAMED
from easerve.builtin import model_path
from easerve.cli.configuring import check_file, write_file
from easerve.config import (
    Deployment,
    WorkerEntry,
    encode_tokens,
    engine_of,
    engine_options,
    plan_workers,
    problems,
    read_deployment,
    write_deployment,
)
from easerve.config import topology as topologies
from easerve.config.topology import EP, PD
from easerve.engine import choice
from easerve.engine.vllm.arguments import parse_arguments
from easerve.errors import StartupError

TOPOLOGIES = ("aggregated", "colocated", "e-pd", "e-p-d", "easerve")


def stages(deployment: Deployment) -> list[str]:
    return [f"{plan.name}: {'+'.join(plan.stages)}" for plan in plan_workers(deployment)]


def test_presets_have_their_stages() -> None:
    assert stages(Deployment(topology="aggregated")) == ["worker-0: encode+prefill+decode"]
    assert stages(Deployment(topology="colocated")) == ["encode-0: encode", "generate-0: prefill+decode"]
    assert stages(Deployment(topology="e-p-d", encoders=2)) == [
        "encode-0: encode", "encode-1: encode", "prefill-0: prefill", "decode-0: decode"
    ]  # fmt: skip
    assert stages(Deployment(topology="easerve", prefillers=0)) == [
        "encode-0: encode+prefill",
        "generate-0: prefill+decode",
    ]
    assert stages(Deployment(topology="easerve", decoders=2)) == [
        "encode-0: encode+prefill", "prefill-0: prefill", "decode-0: decode", "decode-1: decode"
    ]  # fmt: skip


@given(
    topology=st.sampled_from(TOPOLOGIES),
    encoders=st.integers(1, 5),
    decoders=st.integers(1, 5),
    cores=st.integers(1, 40),
)
def test_presets_map_onto_any_number_of_cores(topology: str, encoders: int, decoders: int, cores: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topologies, "usable_cores", lambda: list(range(cores)))
        numbers = {"decoders": decoders} if topology == "aggregated" else {"decoders": decoders, "encoders": encoders}
        deployment = Deployment(topology=topology, device="cpu", **numbers)  # type: ignore[arg-type]
        plans = plan_workers(deployment)
    assert problems(deployment) == []
    assert len({plan.name for plan in plans}) == len(plans)
    used = [core for plan in plans for core in plan.device.indices]
    assert all(plan.device.indices for plan in plans)
    assert set(used) <= set(range(cores))
    if len(plans) <= 3 and cores >= len(plans):
        assert sorted(used) == list(range(cores)), "cores were left out or given twice"


@pytest.mark.parametrize("devices", [1, 2, 8])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_presets_map_onto_any_number_of_gpus(topology: str, devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topologies, "cuda_devices", lambda: devices)
    plans = plan_workers(Deployment(topology=topology, device="cuda", encoders=2, decoders=2))  # type: ignore[arg-type]
    assert {plan.device.kind for plan in plans} == {"cuda"}
    assert all(plan.device.indices[0] < devices for plan in plans)
    encoding = {plan.device for plan in plans if plan.stages[0] == "encode"}
    decoding = {plan.device for plan in plans if plan.stages[-1] == "decode"}
    if devices == 8 and topology.startswith("e"):
        assert not encoding & decoding, "encode shares a device with decode although there are enough"


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_written_file_reads_back_as_the_same(topology: str, tmp_path: Path) -> None:
    workers = (
        WorkerEntry(stages=("encode",), device="cpu:0", count=2),
        WorkerEntry(stages=("prefill", "decode"), device="cuda:1"),
    )
    for deployment in (
        Deployment(topology=topology, batching="gap", gap_factor=0.5, allowed_media_domains=("a.example",)),  # type: ignore[arg-type]
        Deployment(workers=workers, slo_ttft=0.5),
        Deployment(engine="vllm", engine_args=("enforce-eager=true", 'compilation_config={"mode": 0}')),
    ):
        write_deployment(deployment, tmp_path / "deployment.yaml", comment="why\nand how")
        assert read_deployment(tmp_path / "deployment.yaml") == deployment


def test_a_written_topology_is_a_list_of_its_workers_and_holds_no_keys(tmp_path: Path) -> None:
    file, console = tmp_path / "deployment.yaml", Console(quiet=True)
    deployment = Deployment(topology="easerve", encoders=2, device="cpu", batching="gap", api_keys=("secret",))
    write_file(deployment, file, console)
    assert check_file(file, console)
    assert plan_workers(read_deployment(file)) == plan_workers(deployment)
    assert read_deployment(file).batching == "gap"
    assert "secret" not in file.read_text()


@pytest.mark.parametrize("model", ["/no/such", "~/no-such", "./no-such", "{tmp}/no-such", "no/such/model", "no-such/"])
def test_a_model_folder_that_is_not_there_is_told(model: str, tmp_path: Path) -> None:
    file, console = tmp_path / "deployment.yaml", Console(record=True, width=200, file=(tmp_path / "out").open("w"))
    file.write_text(f"model: {model.format(tmp=tmp_path)}\nencode_batch: 3")
    assert not check_file(file, console)
    said = console.export_text()
    assert f"{file}: model: " in said
    assert repr(model.format(tmp=tmp_path)) in said
    assert "folder" in said


def test_a_hub_id_is_not_asked_for_and_a_folder_is_looked_into(tmp_path: Path) -> None:
    def check(model: str) -> tuple[bool, str]:
        file, console = tmp_path / "deployment.yaml", Console(record=True, width=200, file=(tmp_path / "out").open("w"))
        file.write_text(f"model: {model}\nengine: torch")
        return check_file(file, console), console.export_text()

    fine, said = check("no-such-org/no-such-model")
    assert fine
    assert "from the hub" in said
    assert check(str(model_path()))[0]
    fine, said = check(str(tmp_path))
    assert not fine
    assert "config.json is missing" in said


def test_named_workloads_fit_a_server_of_defaults() -> None:
    images = [getattr(workload, "images", 0) for workload in NAMED.values()]
    assert 10 <= max(images) <= Deployment().limit_images


def test_overrides_come_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text("batching: gap\nencode_batch: 4\n")
    assert read_deployment(tmp_path / "deployment.yaml", encode_batch=2) == Deployment(batching="gap", encode_batch=2)


def test_engine_args_may_be_pairs_or_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "deployment.yaml").write_text("engine_args: {block-size: 32, hf_overrides: {a: [1]}, name: x y}")
    written = read_deployment(tmp_path / "deployment.yaml").engine_args
    wanted = {"block_size": 32, "hf_overrides": {"a": [1]}, "name": "x y"}
    assert parse_arguments(written) == wanted
    assert parse_arguments(("--block-size=32", 'hf-overrides={"a": [1]}', "name=x y")) == wanted


@pytest.mark.parametrize("installed", [True, False])
def test_auto_is_vllm_only_where_it_is_installed_and_the_device_is_cuda(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "find_spec", lambda _: object() if installed else None)
    workers = tuple(WorkerEntry(stages=("encode", "prefill", "decode"), device=f"{kind}:0") for kind in ("cpu", "cuda"))
    mixed = Deployment(workers=workers)
    assert [engine_of(mixed, plan) for plan in plan_workers(mixed)] == ["torch", "vllm" if installed else "torch"]
    asked = Deployment(workers=workers, engine="vllm")
    assert bool(problems(asked)) is not installed
    assert installed or "make setup-vllm" in problems(asked)[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batching: slow", ["batching", "'gap'", "not 'slow'"]),
        ("encode_batch: 0\nremote_ratio: 2", ["encode_batch", "remote_ratio"]),
        ("modell: x", ["modell", "no such field"]),
        ("1: x", ["1: ", "no such field"]),
        ("batching: gap\nage_cap: 1\nbatching: count", ["batching is given 2 times", "line 1"]),
        ("b\xe4tching: gap".encode("latin-1"), ["no YAML"]),
        ("age_cap: .inf\nslo_ttft: .nan", ["age_cap", "slo_ttft", "finite"]),
        ("dtype: float17", ["dtype", "'bfloat16'"]),
        (
            "workers: [{stages: encode, device: 'cpu:0', speed: 2}, {stages: [decode]}]",
            [
                "workers[0].stages: must be a list",
                "workers[0].speed",
                "stages, device, count",
                "workers[1].device: is missing",
            ],
        ),
        ("workers: [{stages: [encode], device: 'cpu:1-0'}]", ["workers[0].device", "counts down"]),
        ("workers: [{stages: [encode], device: 'cpu:0,0'}]", ["workers[0].device", "a core twice"]),
        ("workers: [{stages: [encode], device: tpu:0}]", ["workers[0].device", "cpu:0-3"]),
        ("workers: [{stages: [encode, think], device: 'cpu:0'}]", ["workers[0].stages[1]", "'think'"]),
        ("workers: [{stages: [encode], device: 'cpu:0'}]", ["no worker prefills", "no worker decodes"]),
        ("workers: [{stages: [encode, prefill], device: 'cpu:0'}]", ["no worker decodes"]),
        (
            "topology: easerve\nworkers: [{stages: [encode, prefill, decode], device: 'cpu:0'}]",
            ["topology would have no effect"],
        ),
        (
            "workers: [{stages: [encode, prefill, decode], device: 'cpu:0', name: a}, "
            "{stages: [encode], device: 'cpu:0', name: a}]",
            ["two workers are called a"],
        ),
        ("max_encode_queue: 3", ["max_encode_queue 3 is less than limit_images 16"]),
        ("topology: aggregated\nencoders: 2\nprefillers: 1", ["aggregated has no encoders or prefillers of their own"]),
        ("engine: timed", ["--engine-args hardware=a100"]),
        ("engine: fast", ["engine", "'vllm'", "not 'fast'"]),
        ("engine_args: [eager]", ["engine_args", "'eager' is no key=value"]),
        ("engine_args: {max-num-seqs: 4}", ["engine_args", "max_num_seqs", "--max-sequences"]),
        ("engine: torch\nengine_args: {enforce_eager: true}", ["engine_args are for vLLM", "--engine vllm"]),
        ("- a list", ["field: value"]),
        ("a: [", ["no YAML"]),
    ],
)
def test_faults_of_a_file_are_told_by_place(text: str | bytes, words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    console = Console(record=True, width=200, file=(tmp_path / "out").open("w"))
    try:
        assert not check_file(file, console)
        said = console.export_text()
    except StartupError as error:
        said = error.message
    assert str(file) in said
    for word in words:
        assert word in said


def test_bounds_left_open_are_those_of_the_devices() -> None:
    def bounds(**fields: Any) -> tuple[int | None, set[int]]:
        deployment = Deployment(**{"engine": "torch", **fields})
        plans = plan_workers(deployment)
        steps = {engine_options(deployment, plan).max_batched_tokens for plan in plans if plan.stages != ("encode",)}
        return encode_tokens(deployment, plans), steps

    encode, beside = WorkerEntry(stages=("encode",), device="cpu:0"), WorkerEntry(stages=EP, device="cpu:0")
    faster, generate = WorkerEntry(stages=("encode",), device="cuda:0"), WorkerEntry(stages=PD, device="cuda:0")
    assert bounds(device="cuda") == (None, {2048})
    assert bounds(device="cpu") == (128, {256})
    assert bounds(workers=(encode, generate)) == (128, {2048})
    assert bounds(workers=(encode, faster, generate)) == (None, {2048}), "one queue for both"
    assert bounds(workers=(beside, generate)) == (128, {256, 2048})
    assert bounds(device="cpu", encode_batch=8) == (None, {256}), "what was said is not cut"
    assert bounds(device="cpu", encode_tokens=7, max_batched_tokens=32) == (7, {32})
    assert bounds(device="cpu", engine="vllm", topology="easerve") == (128, {256, 2048}), "local prefill is torch's"
    assert bounds(device="cpu", engine="timed", engine_args=("hardware=a100",)) == (None, {2048}), "what it stands for"
    assert bounds(device="cpu", engine="timed", engine_args=("hardware=cpu",)) == (128, {256})
