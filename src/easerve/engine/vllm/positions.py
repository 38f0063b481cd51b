"""The position of the token after a prompt, for sequences whose media are on another worker.

Where positions have three rows (Qwen-VL), vLLM derives them from the media's grids. A sequence that comes with keys and
values brings no media, only the position to go on from; it is told to the model in the place of a medium.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from vllm.inputs.engine import mm_input
from vllm.multimodal.inputs import (
    MultiModalBatchedField,
    MultiModalFeatureSpec,
    MultiModalFieldElem,
    MultiModalKwargsItem,
    MultiModalKwargsItems,
    PlaceholderRange,
)

from easerve.engine.base import KVState

_SHIFT = "easerve_position_shift"
_MODALITY = "image"


def input_with_kv(tokens: list[int], kv: KVState, name: str) -> Any:
    """Tokens of which `kv` covers the first. `name`, which must be unique, keeps vLLM from finding the keys and values
    of another sequence with the same tokens, and other media, in its prefix cache."""
    shift = MultiModalFieldElem(
        data=torch.tensor(kv.next_position - kv.tokens), field=MultiModalBatchedField(keep_on_cpu=True)
    )
    nowhere = PlaceholderRange(offset=0, length=1, is_embed=torch.zeros(1, dtype=torch.bool))
    items = MultiModalKwargsItems({_MODALITY: [MultiModalKwargsItem({_SHIFT: shift})]})
    return mm_input(tokens, items, {_MODALITY: [f"kv of {name}"]}, {_MODALITY: [nowhere]})


class Positions:
    """Stands before the model's own rule."""

    def __init__(self, model: Any) -> None:
        self._own = getattr(model, "get_mrope_input_positions", None)
        if self._own is not None:
            model.get_mrope_input_positions = self._positions

    def after(self, tokens: Sequence[int], features: Sequence[MultiModalFeatureSpec], covered: int) -> int:
        """Of the token after the first `covered` ones, which hold all media."""
        if self._own is None:
            return covered
        _, shift = self._positions(list(tokens), list(features))
        return covered + shift

    def _positions(self, input_tokens: list[int], mm_features: list[MultiModalFeatureSpec]) -> tuple[torch.Tensor, int]:
        """(3, tokens), and what positions are ahead of a count of the tokens from there on."""
        told = [feature.data[_SHIFT].data for feature in mm_features if feature.data and _SHIFT in feature.data]
        if not told:
            assert self._own is not None
            positions, shift = self._own(input_tokens, mm_features)
            return positions, int(shift)
        shift = int(told[0])
        return (torch.arange(len(input_tokens)) + shift).expand(3, -1).contiguous(), shift
