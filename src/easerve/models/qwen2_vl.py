"""Qwen2-VL and Qwen2.5-VL: pictures at their own resolution, one token per merged block of patches.

The two differ in their vision modules only, which transformers picks by config.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from easerve.models.base import EncoderPart, LanguagePart, MediaSpan
from easerve.models.family import TransformersFamily, require_size
from easerve.models.mrope import mrope_positions
from easerve.models.smart_resize import smart_resize

if TYPE_CHECKING:
    import numpy as np
    import torch

    from easerve.models.encoder import Pixels, Preprocess


class Qwen2VL(TransformersFamily):
    architectures: ClassVar[tuple[str, ...]] = (
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
    )
    default_text = "qwen2_5_vl_text"
    default_image_token = 151655
    default_vision: ClassVar[Mapping[str, Any]] = {"patch_size": 14, "spatial_merge_size": 2}
    default_processor: ClassVar[Mapping[str, Any]] = {
        "patch_size": 14,
        "merge_size": 2,
        "size": {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280},
    }

    def __init__(self, folder: Path, config: Mapping[str, Any], processor: Mapping[str, Any]) -> None:
        super().__init__(folder, config, processor)
        self._patch = int(self.setting("patch_size"))
        self._merge = int(self.setting("merge_size"))
        self.require_same("patch_size", self._patch, self.vision("patch_size"))
        self.require_same("merge_size", self._merge, self.vision("spatial_merge_size"))
        size = {**self.default_processor["size"], **self.setting("size")}
        self._min_pixels = int(processor.get("min_pixels") or size["shortest_edge"])
        self._max_pixels = int(processor.get("max_pixels") or size["longest_edge"])

    def image_tokens(self, height: int, width: int) -> int:
        require_size(height, width)
        factor = self._patch * self._merge
        rows, columns = smart_resize(
            height, width, factor=factor, min_pixels=self._min_pixels, max_pixels=self._max_pixels
        )
        return (rows // factor) * (columns // factor)

    def load_encoder(self, device: str, dtype: torch.dtype | None) -> EncoderPart:
        from easerve.models.encoder import load_image_encoder

        return load_image_encoder(self.folder, _preprocess(self.processor), device, dtype)

    def load_language_model(self, device: str, dtype: torch.dtype | None) -> LanguagePart:
        from easerve.models.language import load_decoder

        return load_decoder(self.folder, self.positions, device, dtype)

    def positions(self, length: int, media: Sequence[MediaSpan]) -> tuple[torch.Tensor, int]:
        """As `LanguagePart.positions`: three rows."""
        import torch

        rows, following = mrope_positions(length, media, self._merge)
        return torch.from_numpy(rows), following


def _preprocess(settings: Mapping[str, Any]) -> Preprocess:
    import torch
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    from easerve.models.encoder import Pixels

    processor = Qwen2VLImageProcessorPil.from_dict(dict(settings))

    def preprocess(pictures: Sequence[np.ndarray]) -> Pixels:
        batch = processor(images=list(pictures), input_data_format="channels_last", return_tensors="np")
        grids = batch["image_grid_thw"]
        return Pixels(
            values=torch.from_numpy(batch["pixel_values"]),
            shapes={"image_grid_thw": torch.from_numpy(grids)},
            grids=[tuple(row) for row in grids.tolist()],
        )

    return preprocess
