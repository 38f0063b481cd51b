"""The built-in model, loaded once."""

from __future__ import annotations

import pytest
from transformers import AttentionInterface

from easerve.builtin.exam import Candidate
from easerve.engine.torch.attention import paged_attention
from easerve.models.base import PAGED_ATTENTION


@pytest.fixture(scope="session")
def loaded() -> Candidate:
    return Candidate()


@pytest.fixture
def candidate(loaded: Candidate) -> Candidate:
    """With the engine's own attention: tests of the models register a stand-in under the same name."""
    AttentionInterface.register(PAGED_ATTENTION, paged_attention)
    return loaded
