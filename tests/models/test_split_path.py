"""Encoder alone, then language model alone, is the whole model: to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.models.conftest import PAGED
from tests.tiny_models import random_picture
from transformers import AutoImageProcessor, AutoModelForImageTextToText

from easerve.models.base import Embedding, Family, MediaSpan
from easerve.models.registry import load_family

SIZES = {
    "one": [(70, 90)],
    "two of different sizes": [(60, 200), (301, 97)],
    "repeated": [(64, 64), (64, 64)],
}
WORDS = [10, 20, 30, 40, 50]


def prompt(family: Family, pictures: list[np.ndarray], between: list[int]) -> tuple[list[int], list[int]]:
    """Token ids with expanded placeholders, and the offset of each picture."""
    ids, offsets = list(WORDS), []
    for item in pictures:
        offsets.append(len(ids))
        ids += [family.image_token_id] * family.image_tokens(*item.shape[:2]) + between
    return ids + WORDS, offsets


@torch.inference_mode()
def split(
    family: Family, ids: list[int], offsets: list[int], embeddings: list[Embedding]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of every position from the language part, and the positions as transformers takes them."""
    part = family.load_language_model("cpu", None)
    embeds = part.embed(torch.tensor(ids))
    mask = torch.zeros(len(ids), dtype=torch.bool)
    spans = []
    for offset, item in zip(offsets, embeddings, strict=True):
        span = MediaSpan(offset, len(item.values), item.grid)
        embeds[offset : offset + span.tokens] = item.values
        mask[offset : offset + span.tokens] = True
        spans.append(span)
    positions, _ = part.positions(len(ids), spans)
    levels = [item.deepstack for item in embeddings if item.deepstack is not None]
    deepstack = (mask, torch.cat(levels, dim=1)) if levels else None
    hidden = part.forward(embeds, positions, deepstack=deepstack, paged=PAGED)
    return part.logits(hidden), positions if len(positions) == 1 else positions[:, None]


def fused(folder: Path, ids: list[int], pictures: list[np.ndarray], **more: torch.Tensor) -> torch.Tensor:
    """Logits of every position, from transformers' whole model and image processor."""
    model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    processor = AutoImageProcessor.from_pretrained(folder)
    inputs = processor(images=pictures, input_data_format="channels_last", return_tensors="pt")
    tokens = torch.tensor([ids])
    if "image_grid_thw" in inputs and not more:
        more = {"mm_token_type_ids": (tokens == model.config.image_token_id).int()}
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=tokens, **inputs, **more, use_cache=False).logits[0]
    return logits.float()


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_split_path_equals_the_whole_model_exactly(checkpoint: Path, sizes: list[tuple[int, int]]) -> None:
    family = load_family(str(checkpoint))
    pictures = [random_picture(*size) for size in sizes]
    ids, offsets = prompt(family, pictures, between=[60])
    embeddings = family.load_encoder("cpu", None).encode(pictures)
    ours, _ = split(family, ids, offsets, embeddings)
    assert torch.equal(ours, fused(checkpoint, ids, pictures))


def test_adjacent_pictures_stay_apart(checkpoint: Path) -> None:
    """transformers takes neighbours without a token between for one picture: its positions are given from here."""
    family = load_family(str(checkpoint))
    pictures = [random_picture(60, 200), random_picture(301, 97)]
    ids, offsets = prompt(family, pictures, between=[])
    embeddings = family.load_encoder("cpu", None).encode(pictures)
    ours, positions = split(family, ids, offsets, embeddings)
    assert torch.equal(ours, fused(checkpoint, ids, pictures, position_ids=positions))


def test_swapped_embeddings_change_the_answer(checkpoint: Path) -> None:
    family = load_family(str(checkpoint))
    pictures = [random_picture(64, 64), random_picture(64, 64)[::-1].copy()]
    ids, offsets = prompt(family, pictures, between=[60])
    embeddings = family.load_encoder("cpu", None).encode(pictures)
    right, _ = split(family, ids, offsets, embeddings)
    wrong, _ = split(family, ids, offsets, embeddings[::-1])
    assert right[-1].argmax() != wrong[-1].argmax() or (right - wrong).abs().max() > 0.1


def test_text_alone_needs_no_encoder(checkpoint: Path) -> None:
    ours, _ = split(load_family(str(checkpoint)), WORDS, [], [])
    model = AutoModelForImageTextToText.from_pretrained(checkpoint).eval()
    with torch.inference_mode():
        assert torch.equal(ours, model(input_ids=torch.tensor([WORDS]), use_cache=False).logits[0].float())


def test_greedy_answers_wander(checkpoint: Path) -> None:
    """The tiny checkpoints are of use to other tests only if a wrong token shows in what follows."""
    family = load_family(str(checkpoint))
    ids = list(WORDS)
    for _ in range(24):
        logits, _ = split(family, ids, [], [])
        ids.append(int(logits[-1].argmax()))
    assert len(set(ids[len(WORDS) :])) >= 8
