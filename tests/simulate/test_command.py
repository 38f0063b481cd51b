"""The command, from options to files; and peers as settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from easerve.cli.app import app
from easerve.config import Deployment, WorkerEntry, write_deployment
from easerve.errors import BadRequest, StartupError
from easerve.simulate.machines import Machines, parse_hardware
from easerve.simulate.peers import PEERS, as_peer
from tests.simulate.worlds import LinearCosts, plan, simulation


def test_a_deployment_file_is_simulated_as_it_would_be_served(tmp_path: Path) -> None:
    workers = (
        WorkerEntry(stages=("encode", "prefill"), device="cuda:0", count=2),
        WorkerEntry(stages=("prefill", "decode"), device="cuda:1", name="main"),
    )
    deployment = Deployment(model="qwen2.5-vl-7b", workers=workers, slo_ttft=1.0, slo_tpot=0.05)
    write_deployment(deployment, tmp_path / "d.yaml")
    words = ["simulate", "--config", str(tmp_path / "d.yaml"), "--hardware", "a100", "--workload", "mixed"]
    words += ["--rate", "3", "--requests", "20", "--json", str(tmp_path / "out.json")]
    result = CliRunner().invoke(app, [*words, "--html", str(tmp_path / "out.html")])
    assert result.exit_code == 0, result.output
    assert "simulated" in result.output
    found = json.loads((tmp_path / "out.json").read_text())
    run = found["runs"][0]
    assert run["metrics"]["all"]["completed"] == 20
    assert found["objectives"]["all"] == {"ttft": 1.0, "tpot": 0.05, "e2e": None}
    assert set(run["utilisation"]) == {"encode-0", "encode-1", "main"}
    assert found["simulation"]["world"] == "a100, bf16"
    assert found["simulation"]["sources"]
    assert "virtual time on a100" in (tmp_path / "out.html").read_text()


def test_a_run_without_requests_is_reported() -> None:
    words = ["simulate", "--model", "qwen2.5-vl-7b", "--rate", "1", "--duration", "0.01", "--seed", "1", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    run = json.loads(result.stdout)["runs"][0]
    assert run["metrics"]["all"]["completed"] == 0 and run["utilisation"] == {}


def test_names_that_are_not_known_are_said_with_what_is() -> None:
    with pytest.raises(StartupError, match="a100:8"):
        parse_hardware("a100:none")
    assert parse_hardware("a100:8") == ("a100", 8)
    with pytest.raises(StartupError, match="h100"):
        Machines("abacus").world("qwen2.5-vl-7b")
    with pytest.raises(BadRequest, match="dynamo"):
        as_peer(Deployment(), "nobody")


def test_a_model_without_room_is_told_before_the_load() -> None:
    with pytest.raises(StartupError, match=r"no room in generate-0.*more devices"):
        simulation(LinearCosts(kv_tokens=0)).bench(plan())


def test_peers_differ_where_they_say() -> None:
    """One item a forward pays the cost of a batch for each item; encode in the loop of decode holds up its tokens."""
    batch_costs = LinearCosts(encode_alpha=0.05, encode_beta=0.001)
    ours = simulation(batch_costs, topology="e-p-d")
    load = plan("many-small-images", rate=3.0, requests=60, settings=("images=8",))
    reports = {"ours": ours.bench(load)}
    for peer in PEERS:
        deployment = as_peer(ours.deployment, peer)
        reports[peer] = simulation(batch_costs, **deployment.model_dump(exclude_defaults=True)).bench(load)
    runs = {name: report.runs[0].all for name, report in reports.items()}
    ttft = {name: run.ttft.mean for name, run in runs.items() if run.ttft}
    tpot = {name: run.tpot.mean for name, run in runs.items() if run.tpot}
    assert ttft["dynamo"] > 3 * ttft["ours"]
    assert tpot["vllm"] > 1.2 * tpot["vllm-epd"]
