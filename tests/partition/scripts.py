"""What is tested of `benchmarks`: scripts are no package, and are found where they lie."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _script(name: str) -> ModuleType:
    """Under its own name, by which scripts import one another."""
    found = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module
    found.loader.exec_module(module)
    return module


TokenPace = _script("token_pace").TokenPace
partition = _script("partition")
