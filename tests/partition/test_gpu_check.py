"""tools/gpu_check.py from start to end on tiny models, as it runs on a GPU machine: in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "gpu_check.py"


def test_all_sections_run_on_a_cpu_without_what_a_gpu_machine_may_lack(tmp_path: Path) -> None:
    script = tmp_path / "gpu_check.py"
    script.write_text(_without("msgspec", "zmq", "blake3", "fastapi", "prometheus_client"))
    run = subprocess.run(
        [sys.executable, str(script), "--tiny", "--device", "cpu", "--out", str(tmp_path), "--seconds", "60"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads((tmp_path / "gpu_check.json").read_text())
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


def _without(*packages: str) -> str:
    """A script that runs the tool as if these were not installed."""
    return (
        "import importlib.abc, runpy, sys\n"
        "class Missing(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.partition('.')[0] in {packages!r}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        f"runpy.run_path({str(TOOL)!r}, run_name='__main__')\n"
    )
