"""Qwen-VL's three-row positions, from spans and grids alone, are transformers' `get_rope_index`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

from easerve.errors import EAServeError
from easerve.models.base import MediaSpan
from easerve.models.language import plain_positions
from easerve.models.mrope import mrope_positions

GRIDS = st.tuples(st.just(1), st.integers(1, 12).map(lambda n: 2 * n), st.integers(1, 12).map(lambda n: 2 * n))
PIECES = st.lists(st.tuples(st.integers(1, 9), GRIDS), max_size=4)


@pytest.mark.parametrize("model", [Qwen2VLModel, Qwen2_5_VLModel, Qwen3VLModel])
def test_positions_equal_get_rope_index(model: Any) -> None:
    vision = SimpleNamespace(spatial_merge_size=2, tokens_per_second=4)
    whole = SimpleNamespace(config=SimpleNamespace(vision_config=vision))
    whole.get_vision_position_ids = lambda *args, **more: model.get_vision_position_ids(whole, *args, **more)

    @settings(max_examples=150, deadline=None)
    @given(PIECES, st.integers(0, 5))
    def check(pieces: list[tuple[int, tuple[int, int, int]]], tail: int) -> None:
        kinds: list[int] = []
        spans = []
        for text, grid in pieces:
            kinds += [0] * text
            tokens = grid[0] * grid[1] * grid[2] // 4
            spans.append(MediaSpan(len(kinds), tokens, grid))
            kinds += [1] * tokens
        kinds += [0] * (tail if pieces else tail + 1)
        theirs, delta = model.get_rope_index(
            whole, torch.zeros(1, len(kinds), dtype=torch.long), mm_token_type_ids=torch.tensor([kinds]),
            image_grid_thw=torch.tensor([grid for _, grid in pieces]) if pieces else None,
        )  # fmt: skip
        ours, following = mrope_positions(len(kinds), spans, merge=2)
        assert torch.equal(torch.from_numpy(ours), theirs[:, 0])
        assert following == len(kinds) + int(delta)

    check()


def test_adjacent_pictures_get_a_box_each() -> None:
    spans = [MediaSpan(1, 4, (1, 4, 4)), MediaSpan(5, 1, (1, 2, 2))]
    rows, following = mrope_positions(7, spans, merge=2)
    assert rows.tolist() == [[0, 1, 1, 1, 1, 3, 4], [0, 1, 1, 2, 2, 3, 4], [0, 1, 2, 1, 2, 3, 4]]
    assert following == 5


@pytest.mark.parametrize(
    "spans",
    [
        [MediaSpan(1, 4, (1, 4, 2))],  # grid and tokens disagree
        [MediaSpan(5, 4, (1, 4, 4))],  # past the end
        [MediaSpan(0, 4, (1, 4, 4)), MediaSpan(3, 4, (1, 4, 4))],  # overlapping
    ],
)
def test_spans_that_cannot_be_are_refused(spans: list[MediaSpan]) -> None:
    with pytest.raises(EAServeError, match="Item at"):
        mrope_positions(8, spans, merge=2)


def test_plain_positions_count() -> None:
    positions, following = plain_positions(4, [MediaSpan(1, 2)])
    assert positions.tolist() == [[0, 1, 2, 3]]
    assert following == 4
