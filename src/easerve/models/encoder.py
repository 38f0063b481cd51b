"""The encoder half of a model: pictures through transformers' image processor and `get_image_features`.

Families differ in what the processor hands to the model and what describes an item's shape; see `Pixels`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from easerve.models.base import Embedding
from easerve.models.build import fill, own_dtype, read_config, skeleton
from easerve.models.weights import Weights

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Pixels:
    """A batch as `get_image_features` takes it."""

    values: torch.Tensor  # floating point; cast to the encoder's dtype
    shapes: dict[str, torch.Tensor]  # the family's own keyword argument: integers, one row per picture
    grids: list[tuple[int, ...]] = field(default_factory=list)  # what an Embedding keeps of it; may be empty


Preprocess = Callable[[Sequence["np.ndarray"]], Pixels]


class ImageEncoder:
    """transformers' multimodal model without its language model."""

    def __init__(self, model: Any, preprocess: Preprocess, device: torch.device, dtype: torch.dtype) -> None:
        self.model = model
        self.device = device
        self.dtype = dtype
        self.width: int = model.config.text_config.hidden_size
        self._preprocess = preprocess

    @torch.inference_mode()
    def encode(self, pictures: Sequence[np.ndarray]) -> list[Embedding]:
        """Embeddings in the order of `pictures`, each in memory of its own."""
        if not pictures:
            return []
        pixels = self._preprocess(pictures)
        output = self.model.get_image_features(
            pixels.values.to(self.device, self.dtype),
            **{name: rows.to(self.device) for name, rows in pixels.shapes.items()},
        )
        levels = getattr(output, "deepstack_features", None)  # Qwen3-VL: one list of items per level
        return [
            Embedding(
                values=values.clone(),
                grid=pixels.grids[item] if pixels.grids else (),
                deepstack=torch.stack([level[item] for level in levels]) if levels else None,
            )
            for item, values in enumerate(output.pooler_output)
        ]


def load_image_encoder(folder: Path, preprocess: Preprocess, device: str, dtype: torch.dtype | None) -> ImageEncoder:
    """Build the model of `folder`, drop its language model, and read what is left."""
    config = read_config(folder)
    weights = Weights(folder)
    chosen = dtype or own_dtype(config, weights)
    model = skeleton(config)
    del model.language_model
    fill(model, weights, "", torch.device(device), chosen)
    return ImageEncoder(model, preprocess, torch.device(device), chosen)
