"""LLaVA-OneVision: LLaVA-NeXT's tiling over a SigLIP tower, with many canvases and a bound on features.

Every picture is tiled, also where a request has several: an item's embedding must not depend on its company.
(transformers' processor shows each of several pictures as one tile only.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from easerve.errors import UnsupportedModel
from easerve.models.llava_next import LlavaNext

_EDGES = (384, 768, 1152, 1536, 1920, 2304)
_BOUNDED = "anyres_max_"


class LlavaOnevision(LlavaNext):
    architectures: ClassVar[tuple[str, ...]] = ("LlavaOnevisionForConditionalGeneration",)
    default_text = "qwen2"
    default_image_token = 151646
    default_tower = "siglip_vision_model"
    default_select = "full"
    default_vision: ClassVar[Mapping[str, Any]] = {"image_size": 224, "patch_size": 16}
    default_canvases: ClassVar[Sequence[Sequence[int]]] = tuple((high, wide) for high in _EDGES for wide in _EDGES)
    default_processor: ClassVar[Mapping[str, Any]] = {
        "size": {"height": 384, "width": 384},
        "crop_size": None,
        "image_grid_pinpoints": default_canvases,
    }

    def _image_processor(self) -> Any:
        from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (
            LlavaOnevisionImageProcessorPil,
        )

        return LlavaOnevisionImageProcessorPil.from_dict(dict(self.processor))

    def _most_tiles(self) -> int:
        stated = str(self.config.get("vision_aspect_ratio", f"{_BOUNDED}9"))
        number = stated.removeprefix(_BOUNDED)
        if number == stated or not number.isdigit():
            raise UnsupportedModel(
                f"{self.folder}: vision_aspect_ratio {stated!r} is not supported; it must be like '{_BOUNDED}9'."
            )
        return int(number)

    def _vision_settings(self) -> dict[str, Any]:
        return {**super()._vision_settings(), "most_tiles": self._most_tiles()}
