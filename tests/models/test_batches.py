"""A batch is its items: mixed sizes, any order, and nothing shared between what comes out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.tiny_models import random_picture

from easerve.models.registry import load_family

SIZES = [(64, 64), (30, 200), (250, 90), (64, 64), (3, 8), (120, 121)]


def test_a_mixed_batch_equals_its_items_one_by_one(checkpoint: Path) -> None:
    encoder = load_family(str(checkpoint)).load_encoder("cpu", None)
    pictures = [random_picture(*size) for size in SIZES]
    for item, picture in zip(encoder.encode(pictures), pictures, strict=True):
        (alone,) = encoder.encode([picture])
        assert item.grid == alone.grid
        torch.testing.assert_close(item.values, alone.values, rtol=1e-4, atol=1e-5)
        if item.deepstack is not None:
            torch.testing.assert_close(item.deepstack, alone.deepstack, rtol=1e-4, atol=1e-5)


def test_embeddings_do_not_keep_the_batch_alive(checkpoint: Path) -> None:
    encoder = load_family(str(checkpoint)).load_encoder("cpu", None)
    for item in encoder.encode([random_picture(*size) for size in SIZES]):
        for tensor in (item.values, item.deepstack):
            assert tensor is None or tensor.untyped_storage().nbytes() == tensor.nbytes


def test_an_empty_batch_is_no_work(checkpoint: Path) -> None:
    assert load_family(str(checkpoint)).load_encoder("cpu", None).encode([]) == []


@pytest.mark.parametrize("layout", ["transposed", "strided", "read-only"])
def test_pictures_may_lie_in_memory_as_they_like(checkpoint: Path, layout: str) -> None:
    encoder = load_family(str(checkpoint)).load_encoder("cpu", None)
    picture = random_picture(80, 60)
    other = {
        "transposed": picture.transpose(1, 0, 2).copy().transpose(1, 0, 2),
        "strided": picture.repeat(2, axis=0)[::2],
        "read-only": picture.copy(),
    }[layout]
    other.flags.writeable = False
    assert torch.equal(encoder.encode([picture])[0].values, encoder.encode([other])[0].values)
