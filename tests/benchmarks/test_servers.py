"""Benchmarks that start servers. Only the smallest is quick; the others are run by `make test-slow`."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from easerve.builtin import model_path
from easerve.workers.spec import usable_cores

from .conftest import BENCHMARKS, RunApart
from .sane import are_positive

VLLM = BENCHMARKS.parent / ".venv-vllm" / "bin" / "python"
VLLM_READY = BENCHMARKS.parent / ".venv-vllm" / ".ready"


def test_what_a_server_adds_is_told_beside_the_engines_alone(apart: RunApart) -> None:
    found = json.loads(apart("overhead.py", "--requests", "2", "--size", "56", "--json"))
    assert {"front_end_ms", "whole_ms", "engines_ms", "added_ms", "ratio"} <= set(found)
    del found["added_ms"]  # a difference, of any sign
    assert are_positive(found)


@pytest.mark.slow
def test_batching_of_encode_is_measured_for_every_rule_and_load(apart: RunApart) -> None:
    found = json.loads(apart("encode_batching.py", "--rounds", "1", "--seconds", "2", "--json"))
    assert len(found["phases"]) == 5
    for variants in found["phases"].values():
        assert set(variants) == {"one", "greedy", "gap"}
        for [phase] in variants.values():
            assert are_positive([phase["per_busy_second"], phase["per_second"]])
            assert phase["waits_ms"] and min(phase["waits_ms"]) >= 0
            assert 1 <= phase["batch"] <= 8.001
        assert variants["one"][0]["batch"] == pytest.approx(1)
    repeated = found["repeated"]
    assert repeated["encoded"] == repeated["items by the worker's own count"] == 10
    assert repeated["joined"] + repeated["cached"] == 190


@pytest.mark.slow
def test_interference_is_measured_idle_and_loaded(apart: RunApart) -> None:
    tiny = ("--rounds", "1", "--seconds", "4", "--concurrency", "4", "--side", "56")
    found = json.loads(apart("interference.py", *tiny, "--json"))
    kinds = [f"{topology}, {load}" for topology in ("colocated", "aggregated") for load in ("idle", "loaded")]
    assert list(found["phases"]) == kinds
    for kind, phase in found["phases"].items():
        assert are_positive([phase["ttfts_ms"], phase["first_token_ms"], phase["p50_ms"], phase["p99_ms"]])
        assert (phase["pictures_per_s"][0] > 0) == kind.endswith("loaded")
    assert are_positive(found["loaded_over_idle"])


@pytest.mark.slow
@pytest.mark.skipif(len(usable_cores()) < 2, reason="takes two cores")
def test_partitions_are_compared_with_none(apart: RunApart, tmp_path: Path) -> None:
    tiny = ("--rate", "2", "--requests", "4", "--rounds", "1", "--json", "found.json")
    apart("partition.py", *tiny, codes=(0, 1))  # 1: tokens were late on their way
    found = json.loads((tmp_path / "found.json").read_text())
    assert set(found["servers"]) == {"none", "static", "dynamic"}
    assert found["compared"] and all(len(runs) == 1 for runs in found["runs"].values())
    throughput = [row for row in found["compared"] if row["metric"].startswith("throughput")]
    assert throughput and are_positive([row["values"] for row in throughput])
    assert not any(run["metrics"]["all"]["errors"] for [run] in found["runs"].values())
    assert found["shares"]


needs_vllm = pytest.mark.skipif(not VLLM_READY.exists(), reason="there is no vLLM here: run `make setup-vllm`")


@pytest.mark.slow
@needs_vllm
def test_our_load_generator_is_compared_with_vllms(apart: RunApart) -> None:
    core = str(min(os.sched_getaffinity(0)))
    tiny = ("--requests", "4", "--rounds", "1", "--set", "size=56", "--set", "output_tokens=4", "--cores", core)
    options = ("--client-cores", core, "--server-options=--enforce-eager")
    told = apart("bench_check.py", "--model", str(model_path()), *tiny, *options, python=str(VLLM))
    found = re.findall(
        r"^(requests/s|output tokens/s|\w+ (?:mean|P99), ms) +([\d.e+-]+) +([\d.e+-]+) ", told, re.MULTILINE
    )
    assert {"requests/s", "output tokens/s", "TTFT mean, ms", "TPOT P99, ms", "E2E mean, ms"} <= {
        name for name, *_ in found
    }
    assert are_positive([[float(one) for one in figures] for _, *figures in found])
    agreed = re.search(r"round 1: ([\d.]+)% is the most", told)
    assert agreed is not None and float(agreed[1]) < 0.01


@pytest.mark.slow
@needs_vllm
@pytest.mark.skipif(" " in str(VLLM), reason="torch's compiler, which vLLM uses, links nothing in a path with a space")
def test_our_use_of_vllm_is_timed_beside_its_own(apart: RunApart) -> None:
    told = apart("vllm_engine.py", "--model", str(model_path()), "--sequences", "2", "--seeds", "1", python=str(VLLM))
    figures = r"seed 0: ([\d.]+) s and ([\d.]+) s of processor; AsyncLLM ([\d.]+) and ([\d.]+)\n"
    figures += r"ours to AsyncLLM, median: ([\d.]+) of the time, ([\d.]+) of the processor time"
    found = re.search(figures, told)
    assert found is not None, told
    assert are_positive([float(one) for one in found.groups()])
