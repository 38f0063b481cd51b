"""Tiny checkpoints for the whole folder, and the engine's own attention whatever ran before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import AttentionInterface

from easerve.engine.torch.attention import paged_attention
from easerve.models.base import PAGED_ATTENTION
from tests.engine.helpers import Parts, load_parts
from tests.tiny_models import FAMILIES, make_tiny


@pytest.fixture(autouse=True)
def paged() -> None:
    """tests/models registers a stand-in under the same name, for the process."""
    AttentionInterface.register(PAGED_ATTENTION, paged_attention)


@pytest.fixture(scope="session")
def parts_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Parts]:
    """Both parts of a family's tiny checkpoint, loaded once per session."""
    base = tmp_path_factory.mktemp("tiny")
    made: dict[str, Parts] = {}

    def parts(name: str) -> Parts:
        if name not in made:
            made[name] = load_parts(make_tiny(name, base / name))
        return made[name]

    return parts


@pytest.fixture(params=sorted(FAMILIES))
def parts(request: pytest.FixtureRequest, parts_of: Callable[[str], Parts]) -> Parts:
    """Each family in turn."""
    return parts_of(request.param)


@pytest.fixture
def qwen(parts_of: Callable[[str], Parts]) -> Parts:
    return parts_of("qwen2_5_vl")


@pytest.fixture
def deepstack(parts_of: Callable[[str], Parts]) -> Parts:
    """The family whose pictures add to several layers."""
    return parts_of("qwen3_vl")


@pytest.fixture
def builtin() -> Path:
    import easerve

    return Path(easerve.__file__).parent / "builtin" / "model"
