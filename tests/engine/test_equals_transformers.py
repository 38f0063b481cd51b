"""Greedy answers are those of transformers' own `generate`, token for token."""

from __future__ import annotations

from pathlib import Path

import pytest

from easerve.request import SamplingParams
from tests.engine.helpers import Parts, Sizes, drive, load_parts, transformers_greedy

CASES: dict[str, Sizes] = {
    "text only": [],
    "one picture": [(70, 90)],
    "pictures of different sizes": [(60, 200), (110, 97)],
    "the same picture twice": [(64, 64), (64, 64)],
}


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES.keys())
def test_greedy_equals_generate(parts: Parts, sizes: Sizes) -> None:
    sequence = parts.sequence("a", 10, sizes, SamplingParams(max_tokens=20, temperature=0.0))
    expected = transformers_greedy(parts.folder, sequence.prompt, sizes, 20, parts.family.image_token_id)
    assert drive(parts.engine(), [sequence]).tokens["a"] == expected


@pytest.mark.parametrize("sizes", [[], [(112, 112)]], ids=["text only", "one picture"])
def test_greedy_equals_generate_on_the_builtin_model(builtin: Path, sizes: Sizes) -> None:
    parts = load_parts(builtin)
    sequence = parts.sequence("a", 10, sizes, SamplingParams(max_tokens=24, temperature=0.0))
    expected = transformers_greedy(builtin, sequence.prompt, sizes, 24, parts.family.image_token_id)
    assert drive(parts.engine(), [sequence]).tokens["a"] == expected


def test_adjacent_pictures_stay_apart(parts: Parts) -> None:
    """No token between them: each keeps its own embedding and positions."""
    one = parts.sequence("a", 10, [(60, 200), (110, 97)], between=0)
    other = parts.sequence("a", 10, [(60, 200), (110, 97)], between=1)
    engine = parts.engine()
    first, second = drive(engine, [one]).tokens["a"], drive(engine, [other]).tokens["a"]
    assert len(first) == 12 or first[-1] in parts.language.eos_token_ids
    assert first != second
