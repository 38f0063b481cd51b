"""Tiny checkpoints for the whole folder, and the stand-in for the engine's attention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.tiny_models import FAMILIES, make_tiny
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from easerve.models.base import PAGED_ATTENTION

PAGED = "whatever the engine hands over"


def _dense(
    module: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, *, paged: str, **more: Any
) -> Any:
    """One sequence, causal, no cache; checks that `paged` arrives and that no mask was built."""
    assert mask is None
    assert paged == PAGED
    return sdpa_attention_forward(module, query, key, value, None, **more)


@pytest.fixture(autouse=True, scope="session")
def dense_attention() -> None:
    AttentionInterface.register(PAGED_ATTENTION, _dense)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a family's tiny checkpoint, made once per session."""
    base = tmp_path_factory.mktemp("tiny")
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = make_tiny(name, base / name)
        return made[name]

    return folder


@pytest.fixture(params=sorted(FAMILIES))
def checkpoint(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Path:
    """Each family's tiny checkpoint in turn."""
    return tiny(request.param)
