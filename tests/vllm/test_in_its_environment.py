"""Runs the tests of this folder with the interpreter that has vLLM.

vLLM keeps its workings in global variables, so a process has one engine: files that start one have a process each.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from easerve.engine.choice import vllm_is_installed
from tests.tiny_models import FAMILIES

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"

pytestmark = [
    pytest.mark.skipif(vllm_is_installed(), reason="vLLM is here: its tests are collected themselves"),
    pytest.mark.skipif(not PYTHON.exists(), reason="there is no vLLM here: run `make setup-vllm` for its tests"),
]


@pytest.mark.parametrize("names", ["engine", "handover", "server command bench"])
def test_with_vllm(names: str) -> None:
    _run(*(f"tests/vllm/test_{name}.py" for name in names.split()))


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_with_vllm(family: str) -> None:
    _run("tests/vllm/test_families.py", "-k", family)


def _run(*given: str) -> None:
    command = [str(PYTHON), "-m", "pytest", *given]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1500, check=False)
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
