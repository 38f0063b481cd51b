"""`easerve tune` and `easerve advise`, whole, in virtual time over published shapes and measured kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from easerve.bench.objectives import Objectives
from easerve.cli.app import app
from easerve.cli.configuring import check_file
from easerve.cli.plan_options import parse_slo, parse_spans
from easerve.config import read_deployment
from easerve.errors import BadRequest, StartupError
from easerve.search.deploying import Machine

runner = CliRunner()
QUICK = ["--workload", "image-heavy", "--set", "images=4", "--set", "size=896", "--requests", "30"]  # fmt: skip


def test_tune_writes_a_deployment_that_is_valid_and_a_report(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "d.yaml"
    ran = runner.invoke(app, [
        "tune", "--model", "Qwen/Qwen2.5-VL-7B-Instruct", "--hardware", "a100:4", *QUICK,
        "--slo", "ttft=2s,tpot=60ms", "--trials", "7", "--out", str(file), "--study", str(tmp_path / "s.jsonl"),
        "--json",
    ])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    made = read_deployment(file)
    assert check_file(file, Console(quiet=True))
    assert len(found["trials"]) <= 7 and len(found["finalists"]) == 3
    assert found["best"] == found["finalists"][0] and found["best"]["outcome"]["goodput"] > 2
    assert {one["dropped"] is None for one in found["allocations"]} == {True, False}
    assert made.model == "Qwen/Qwen2.5-VL-7B-Instruct" and made.slo_tpot == 0.06
    assert (made.encode_batch, made.batching) == (found["best"]["batch"], found["best"]["rule"])
    used = {entry.device for entry in made.workers}
    assert len(used) == 4 and found["notes"] == []
    page = file.with_suffix(".html").read_text()
    assert found["best"]["name"] in page and page.count("<svg") == 2 and "Simulated" in page


@pytest.mark.parametrize("option", ["--out", "--html", "--study"])
def test_tune_looks_at_its_files_before_it_searches(option: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    words = ["tune", "--model", "qwen2.5-vl-7b", option, str(tmp_path / "file" / "d.yaml")]
    ran = runner.invoke(app, words, env={"COLUMNS": "500"})
    assert ran.exit_code == 2 and "cannot be made" in ran.output


def test_a_plan_that_no_engine_here_serves_says_so_in_the_file_and_on_the_terminal(tmp_path: Path) -> None:
    """34 billion parameters have no room on one device of 48 GB."""
    file = tmp_path / "d.yaml"
    ran = runner.invoke(app, [
        "tune", "--model", "llava-v1.6-34b", "--hardware", "rtx6000ada:4", *QUICK, "--rate", "0.2", "--trials", "2",
        "--out", str(file), "--json",
    ])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    notes = json.loads(ran.stdout)["notes"]
    assert any("cannot be served as it is" in note for note in notes)
    assert any("names a shape, not weights" in note for note in notes)
    head = [line for line in file.read_text().splitlines() if line.startswith("#")]
    assert any("cannot be served as it is" in line for line in head)
    assert all(note in ran.stderr.replace("\n", " ") for note in notes)


def test_a_model_that_has_no_room_is_refused_with_what_would_help(tmp_path: Path) -> None:
    ran = runner.invoke(app, [
        "tune", "--model", "llava-v1.6-34b", "--hardware", "rtx6000ada:1", *QUICK, "--out", str(tmp_path / "d.yaml"),
    ])  # fmt: skip
    assert isinstance(ran.exception, BadRequest)
    assert "no room on 1 of these devices; give more devices" in ran.exception.message


def test_tune_plans_for_sound(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    ran = runner.invoke(app, [
        "tune", "--model", "ultravox-27b", "--hardware", "a100:8", "--workload", "audio", "--slo", "ttft=8s,tpot=100ms",
        "--requests", "30", "--trials", "2", "--out", str(file), "--json",
    ])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["best"]["outcome"]["goodput"] > 0
    assert len({entry.device for entry in read_deployment(file).workers}) == 8
    assert check_file(file, Console(quiet=True))


def test_a_plan_for_more_than_the_devices_can_do_says_so(tmp_path: Path) -> None:
    ran = runner.invoke(app, [
        "tune", "--model", "Qwen/Qwen2.5-VL-7B-Instruct", "--hardware", "a100:2", *QUICK, "--rate", "40",
        "--trials", "2", "--out", str(tmp_path / "d.yaml"), "--json",
    ])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert any("does not sustain 40 req/s" in note for note in json.loads(ran.stdout)["notes"])


def test_advise_puts_every_topology_side_by_side_and_says_when_encode_devices_do_not_pay() -> None:
    """One small picture and a long answer: nearly all the work is decode."""
    ran = runner.invoke(app, [
        "advise", "--model", "qwen2.5-vl-7b", "--hardware", "a100:4", "--workload", "single-small-image",
        "--set", "output_tokens=96", "--requests", "150", "--rate", "200", "--slo", "ttft=0.5s,tpot=14ms", "--json",
    ])  # fmt: skip
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.stdout)
    assert {one["topology"] for one in found["topologies"]} == {"aggregated", "colocated", "e-pd", "e-p-d", "easerve"}
    assert found["best"] in ("aggregated", "colocated")
    assert any("does not pay" in one or "makes no difference" in one for one in found["reasons"])
    gains = {(one["items"], one["output_tokens"]): one["gain"] for one in found["gain_of_encode_devices"]}
    assert gains[1, 2048] < 1 < max(gains.values())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ttft=8s,tpot=100ms", Objectives(8.0, 0.1)),
        ("TPOT = .05", Objectives(None, 0.05)),
        ("", Objectives()),
    ],
)
def test_objectives_are_read_with_their_units(text: str, wanted: Objectives) -> None:
    assert parse_slo(text) == wanted


def test_what_cannot_be_read_is_named() -> None:
    for wrong in ("ttft=8h", "e2e=1s", "ttft", "ttft=0"):
        with pytest.raises(BadRequest, match="ttft=8s"):
            parse_slo(wrong)
    for wrong in ("0,1", "one", "16"):
        with pytest.raises(BadRequest, match="tensor-parallel"):
            parse_spans(wrong, 8)
    for wrong in ("a100:0", "a100:x", "cpu:4096"):
        with pytest.raises(StartupError, match="hardware"):
            Machine.parse(wrong)
