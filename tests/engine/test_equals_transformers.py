"""Greedy answers are those of transformers' own `generate`, token for token.

The two add up floats in different orders, so that a near tie could fall either way. In all cases below the most likely
token leads by more than `MARGIN` at each step, a hundred times what rounding moves a logit here; the test says so
should a new case come closer.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from easerve.request import SamplingParams, TokenOutput
from tests.engine.helpers import Parts, Sizes, drive, load_parts, transformers_greedy

MOST = 24  # tokens
MARGIN = 1e-4  # in log-probability
CASES: dict[str, Sizes] = {
    "text only": [],
    "one picture": [(70, 90)],
    "pictures of different sizes": [(60, 200), (110, 97)],
    "the same picture twice": [(64, 64), (64, 64)],
}


def assert_equals_generate(parts: Parts, sizes: Sizes) -> None:
    sequence = parts.sequence("a", 10, sizes, SamplingParams(max_tokens=MOST, temperature=0.0, logprobs=2))
    run = drive(parts.engine(), [sequence])
    assert min(lead(output) for output in run.outputs["a"]) > MARGIN, "too near a tie; choose another seed or size"
    expected = transformers_greedy(parts.folder, sequence.prompt, sizes, MOST, parts.family.image_token_id)
    assert run.tokens["a"] == expected


def lead(output: TokenOutput) -> float:
    """By how much the chosen token beats the next."""
    assert output.logprobs is not None
    (_, first), (_, second) = output.logprobs.top
    return first - second


@pytest.mark.parametrize("sizes", CASES.values(), ids=CASES.keys())
def test_greedy_equals_generate(parts: Parts, sizes: Sizes) -> None:
    assert_equals_generate(parts, sizes)


@pytest.mark.parametrize("sizes", [[], [(112, 112)]], ids=["text only", "one picture"])
def test_greedy_equals_generate_on_the_builtin_model(builtin: Path, sizes: Sizes) -> None:
    assert_equals_generate(load_parts(builtin), sizes)


def test_adjacent_pictures_stay_apart(parts: Parts) -> None:
    """No token between them: each keeps its own embedding and positions."""
    one = parts.sequence("a", 10, [(60, 200), (110, 97)], between=0)
    other = parts.sequence("a", 10, [(60, 200), (110, 97)], between=1)
    engine = parts.engine()
    first, second = drive(engine, [one]).tokens["a"], drive(engine, [other]).tokens["a"]
    assert len(first) == 12 or first[-1] in parts.language.eos_token_ids
    assert first != second
