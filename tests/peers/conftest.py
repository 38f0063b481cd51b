"""The scripts of `benchmarks/peers` and `tools` are no package: they are found as Python finds them when they run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [str(ROOT / "benchmarks" / "peers"), str(ROOT / "tools")]


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for folder in SCRIPTS:
        monkeypatch.syspath_prepend(folder)
    yield
    for name in ("contenders", "rows", "measure", "table"):
        sys.modules.pop(name, None)
