"""tools/gpu_check.py from start to end on tiny models, as it runs on a GPU machine: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from easerve.engine.partition.sharing import Sharing
from easerve.policy.partition import Unpartitioned

from .conftest import Recorder

TOOL = Path(__file__).parents[2] / "tools" / "gpu_check.py"


def test_all_sections_run_on_a_cpu_without_what_a_gpu_machine_may_lack(tmp_path: Path) -> None:
    installed, out = tmp_path / "installed", tmp_path / "out"
    installed.mkdir()
    _install(installed, "torch", "transformers", "numpy", "triton", "cuda-python")
    assert not (installed / "msgspec").exists()
    run = subprocess.run(
        [sys.executable, "-S", str(TOOL), "--tiny", "--device", "cpu", "--out", str(out), "--seconds", "540"],
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads((out / "gpu_check.json").read_text())
    assert found["passed"] and found["disjoint"]["passed"]
    assert not [name for name, value in found.items() if isinstance(value, dict) and "error" in value]
    assert {step["step"] for step in found["roofline"]["models"]["tiny"]["steps"]} == {"prefill", "decode"}
    for times in found["encode"].values():
        assert len(times["alone"]) == len(times["beside"]) == len(times["batches"])
        assert min(times["prefill_tokens_per_second"]) > 0
    assert {row["tokens"] for row in found["prefill"]} == {16, 32}
    rounds = found["load"]["rounds"]
    assert set(rounds) >= {"none", "dynamic"}
    assert all(one["throughput"] > 0 and one["p99_ttft"] > 0 for runs in rounds.values() for one in runs)
    assert found["plots"] == ["encode_56.svg", "encode_112.svg", "prefill.svg", "load.svg", "roofline.svg"]
    curves = {file: _count(out / file, "polyline") for file in found["plots"][:3]}
    batches = [len(times["batches"]) for times in found["encode"].values()]
    assert list(curves.values()) == [2 * batches[0], 2 * batches[1], 2]
    marks = [_count(out / file, "rect") for file in ("load.svg", "roofline.svg")]  # a legend's, and a bar each
    assert marks == [len(rounds) * (1 + 3), 1 + len(found["roofline"]["models"]["tiny"]["steps"])]


def test_a_plot_that_fails_costs_no_other_and_what_was_not_measured_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import gpu_check
    from gpu_checks.setting import Setting

    report = gpu_check.Report(tmp_path, Setting(torch.device("cpu"), torch.float32, tiny=True, deadline=0.0))
    row = {"tokens": 16, "units": 1, "seconds": 0.5}
    report.results = {"encode": {56: {"batches": [1]}}, "prefill": [row], "load": {"error": "out of memory"}}
    gpu_check._draw(report, tmp_path)
    assert report.results["plots"] == ["prefill.svg"]
    assert report.failed == ["plot of encode"]
    assert "KeyError" in report.results["plot of encode"]["error"]


def test_what_fails_under_load_ends_that_section_and_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import gpu_check
    from gpu_checks.load import Stages
    from gpu_checks.setting import Setting

    def out_of_memory(items: int, side: int) -> None:
        raise RuntimeError("out of memory")

    setting = Setting(torch.device("cpu"), torch.float32, tiny=True, deadline=time.monotonic() + 60)
    idle: Any = SimpleNamespace(engine=SimpleNamespace(max_tokens_per_sequence=9, has_work=lambda: False))
    failing: Any = SimpleNamespace(encode=out_of_memory)
    stages = Stages(setting, failing, idle, Sharing(Recorder(), Unpartitioned(), time.monotonic))
    report = gpu_check.Report(tmp_path, setting)
    report.section("load", lambda: {"load": stages.run([0.0, 0.0])})
    report.section("prefill", lambda: {"prefill": []})
    found = json.loads((tmp_path / "gpu_check.json").read_text())
    assert found["load"] == {"error": "RuntimeError: out of memory"}
    assert found["prefill"] == []
    assert not found["passed"]


def test_a_device_that_could_not_be_split_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOL.parent))
    from gpu_checks.disjoint import measure
    from gpu_checks.setting import Setting

    setting = Setting(torch.device("cpu"), torch.float32, tiny=True, deadline=0.0)
    assert not measure(setting, Recorder(choices=()))["passed"]
    assert measure(setting, Recorder(choices=(), whole=1))["passed"]


def _install(folder: Path, *names: str) -> None:
    """Makes a folder to import from that has these distributions and what they require, as far as they are here, and
    nothing else."""
    wanted, seen = list(names), set()
    while wanted:
        name = canonicalize_name(wanted.pop())
        with suppress(PackageNotFoundError):
            found = distribution(name)
            for entry in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                if not (folder / entry).exists():
                    (folder / entry).symlink_to(Path(str(found.locate_file(entry))))
            required = map(Requirement, found.requires or ())
            needed = {one.name for one in required if one.marker is None or one.marker.evaluate({"extra": ""})}
            wanted += needed - seen
        seen.add(name)


def _count(file: Path, element: str) -> int:
    return len(ElementTree.parse(file).findall(f".//{{http://www.w3.org/2000/svg}}{element}"))
