"""Embeddings as vLLM's models take them: as items that it would have made of pictures itself, had it encoded them.

Our prompts carry as many placeholders as an item has tokens, which is the form that vLLM's own renderer makes; so
nothing is expanded or processed again. Which tensors an item consists of is each model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from vllm.inputs.engine import mm_input, tokens_input
from vllm.multimodal.inputs import (
    MultiModalBatchedField,
    MultiModalFieldElem,
    MultiModalFlatField,
    MultiModalKwargsItem,
    MultiModalKwargsItems,
    PlaceholderRange,
)

from easerve.engine.base import NewSequence
from easerve.engine.vllm.positions import input_with_kv
from easerve.errors import UnsupportedModel
from easerve.models.base import Embedding


@dataclass(frozen=True)
class Arrangement:
    """How a model takes an item, and whether it does so only with its encoder in memory."""

    item: Callable[[Embedding], MultiModalKwargsItem]
    needs_encoder: bool = False


def arrangement_for(architecture: str) -> Arrangement:
    """How items of this architecture are laid out. Raises UnsupportedModel naming those that can be served."""
    try:
        return _ARRANGEMENTS[architecture]
    except KeyError:
        raise UnsupportedModel(
            f"{architecture} cannot be served with vLLM from embeddings; these can: "
            f"{', '.join(sorted(_ARRANGEMENTS))}. Use --engine torch."
        ) from None


def engine_input(sequence: NewSequence, arrange: Arrangement) -> Any:
    """Prompt, what was produced so far, and media, or what is known instead of them."""
    tokens = sequence.prompt + sequence.produced
    if sequence.kv is not None:
        return input_with_kv(tokens, sequence.kv, sequence.id)
    if not sequence.media:
        return tokens_input(tokens)
    return mm_input(
        tokens,
        MultiModalKwargsItems({"image": [arrange.item(embedding) for _, embedding in sequence.media]}),
        {"image": [one.key or f"{sequence.id}@{offset}" for offset, one in sequence.media]},
        {"image": [PlaceholderRange(offset=offset, length=len(one.values)) for offset, one in sequence.media]},
    )


def _flat(tensor: torch.Tensor) -> MultiModalFieldElem:
    """Items of one step are joined along their tokens."""
    return MultiModalFieldElem(data=tensor, field=MultiModalFlatField(slices=[slice(0, len(tensor))]))


def _qwen(embedding: Embedding) -> MultiModalKwargsItem:
    """With the grid, of which the model makes positions."""
    values = embedding.values
    if embedding.deepstack is not None:  # Qwen3-VL's tower gives its levels beside the values, in one row
        values = torch.cat([values, *embedding.deepstack], dim=1)
    grid = MultiModalFieldElem(data=torch.tensor(embedding.grid), field=MultiModalBatchedField(keep_on_cpu=True))
    return MultiModalKwargsItem({"image_embeds": _flat(values), "image_grid_thw": grid})


def _llava(embedding: Embedding) -> MultiModalKwargsItem:
    """Rows as they go into the prompt, line ends included."""
    return MultiModalKwargsItem(
        {"image_embeds": MultiModalFieldElem(data=embedding.values, field=MultiModalBatchedField())}
    )


_ARRANGEMENTS: Mapping[str, Arrangement] = {
    "Qwen2VLForConditionalGeneration": Arrangement(_qwen),
    "Qwen2_5_VLForConditionalGeneration": Arrangement(_qwen),
    "Qwen3VLForConditionalGeneration": Arrangement(_qwen, needs_encoder=True),  # without, vLLM drops deepstack levels
    "LlavaNextForConditionalGeneration": Arrangement(_llava),
    "LlavaOnevisionForConditionalGeneration": Arrangement(_llava),
}
