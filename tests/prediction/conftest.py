"""The scripts of `benchmarks/prediction` are no package: they are found as Python finds them when they run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = str(Path(__file__).parents[2] / "benchmarks" / "prediction")


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(SCRIPTS)
    yield
    for name in ("beside", "machine_profile", "pace", "prediction_table", "stage_table"):
        sys.modules.pop(name, None)
