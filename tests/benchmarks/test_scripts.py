"""No benchmark is left out, and each says what it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import BENCHMARKS, Run

SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if "__main__" in path.read_text())


def test_every_benchmark_is_run_by_a_test() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert sorted(set(re.findall(r'\b(?:here|apart)\(\s*"(\w+\.py)"', tests))) == SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS)
def test_its_help_begins_with_what_it_shows(script: str, here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    told = here(script, "--help")
    assert f"usage: {script}" in told
    first = (BENCHMARKS / script).read_text().split('"""')[1].splitlines()[0]
    assert first in told
