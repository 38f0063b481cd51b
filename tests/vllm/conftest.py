"""The vLLM engine on the built-in model.

vLLM has an environment of its own (`make setup-vllm`). Where it cannot be imported only `test_in_its_environment.py` is
collected, which runs the others there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from easerve.builtin import model_path
from easerve.engine.choice import vllm_is_installed
from tests.engine.helpers import Parts, load_parts

os.environ.setdefault("HF_HUB_OFFLINE", "1")
WITH_VLLM = ("engine", "families", "handover", "server", "command", "bench")
collect_ignore = [] if vllm_is_installed() else [f"test_{name}.py" for name in WITH_VLLM]


@pytest.fixture(scope="session")
def builtin() -> Iterator[Parts]:
    """The torch engine's halves of it, to hold vLLM's answers against."""
    yield load_parts(model_path())
