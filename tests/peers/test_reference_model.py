"""The reference model is a whole checkpoint: its parts compute what transformers computes from the same folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForImageTextToText, AutoTokenizer

from easerve.bench.words import WORDS
from easerve.models.registry import load_family


def test_transformers_and_easerve_load_the_same_model(tmp_path: Path) -> None:
    from make_reference_model import VOCABULARY, write_reference

    assert 49e6 < write_reference(tmp_path) < 50e6
    family = load_family(str(tmp_path))
    assert (family.image_tokens(224, 224), family.image_tokens(56, 56), family.image_tokens(896, 896)) == (64, 4, 1024)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == VOCABULARY
    assert all(len(tokenizer.encode(f" {word}")) == 1 for word in WORDS)

    model = AutoModelForImageTextToText.from_pretrained(tmp_path, dtype=torch.float32).eval()
    encoder = family.load_encoder("cpu", torch.float32)
    picture = np.random.default_rng(0).integers(0, 256, (112, 56, 3), dtype=np.uint8)
    [embedding] = encoder.encode([picture])
    pixels = encoder._preprocess([picture])
    with torch.inference_mode():
        [wanted] = model.model.get_image_features(pixels.values, **pixels.shapes).pooler_output
    assert torch.equal(embedding.values, wanted)
