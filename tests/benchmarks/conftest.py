"""The scripts of `benchmarks/` are run as a user runs them, with arguments that make them small."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LONGEST_SECONDS = 900


class Run(Protocol):
    """Runs a script of `benchmarks/` in an empty folder. What it printed."""

    def __call__(self, script: str, *arguments: str) -> str: ...


class RunApart(Protocol):
    """The same, with any Python. `codes`: how it may end."""

    def __call__(
        self, script: str, *arguments: str, python: str = sys.executable, codes: Sequence[int] = (0,)
    ) -> str: ...


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """In this process: for scripts that start no other."""
    monkeypatch.chdir(tmp_path)

    def run(script: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        capsys.readouterr()
        try:
            runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
        except SystemExit as end:  # 1 may mean no more than a target that was missed
            assert end.code in (None, 0, 1), end.code
        return capsys.readouterr().out

    return run


@pytest.fixture
def apart(tmp_path: Path) -> RunApart:
    """In a process of its own."""

    def run(script: str, *arguments: str, python: str = sys.executable, codes: Sequence[int] = (0,)) -> str:
        command = [python, str(BENCHMARKS / script), *arguments]
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(
            command, cwd=tmp_path, env=one_thread, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False
        )
        assert ran.returncode in codes, ran.stderr
        return ran.stdout

    return run
