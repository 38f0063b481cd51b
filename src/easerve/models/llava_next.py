"""LLaVA-NeXT (v1.6): tiles through a CLIP tower, features put together again, any decoder transformers has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from easerve.errors import UnsupportedModel
from easerve.models.anyres import Anyres
from easerve.models.base import EncoderPart, LanguagePart
from easerve.models.family import TransformersFamily, require_size

if TYPE_CHECKING:
    import numpy as np
    import torch

    from easerve.models.encoder import Pixels

_TOWERS_WITH_CLASS_TOKEN = ("clip_vision_model",)


class LlavaNext(TransformersFamily):
    architectures: ClassVar[tuple[str, ...]] = ("LlavaNextForConditionalGeneration",)
    default_text = "llama"
    default_image_token = 32000
    default_tower: ClassVar[str] = "clip_vision_model"
    default_select: ClassVar[str] = "default"  # drops the class token
    default_vision: ClassVar[Mapping[str, Any]] = {"image_size": 224, "patch_size": 32}
    default_canvases: ClassVar[Sequence[Sequence[int]]] = (
        (336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008),
    )  # fmt: skip
    default_processor: ClassVar[Mapping[str, Any]] = {
        "size": {"shortest_edge": 224},
        "crop_size": {"height": 224, "width": 224},
        "image_grid_pinpoints": default_canvases,
    }

    def __init__(self, folder: Path, config: Mapping[str, Any], processor: Mapping[str, Any]) -> None:
        super().__init__(folder, config, processor)
        tile = int(self.vision("image_size"))
        self.require_same("tile size", self._processor_tile(), tile)
        canvases = _pairs(config.get("image_grid_pinpoints") or self.default_canvases)
        self.require_same("image_grid_pinpoints", _pairs(self.setting("image_grid_pinpoints")), canvases)
        self._refuse_odd_features()
        self._anyres = Anyres(canvases, tile, tile // int(self.vision("patch_size")), self._most_tiles())

    def image_tokens(self, height: int, width: int) -> int:
        require_size(height, width)
        return self._anyres.tokens(height, width)

    def load_encoder(self, device: str, dtype: torch.dtype | None) -> EncoderPart:
        from easerve.models.encoder import load_image_encoder

        processor = self._image_processor()

        def preprocess(pictures: Sequence[np.ndarray]) -> Pixels:
            return _tiles(processor, pictures)

        return load_image_encoder(self.folder, preprocess, device, dtype)

    def load_language_model(self, device: str, dtype: torch.dtype | None) -> LanguagePart:
        from easerve.models.language import load_decoder, plain_positions

        return load_decoder(self.folder, plain_positions, device, dtype)

    def _image_processor(self) -> Any:
        from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

        return LlavaNextImageProcessorPil.from_dict(dict(self.processor))

    def _most_tiles(self) -> int | None:
        return None

    def _processor_tile(self) -> int:
        """Pixels along an edge of what the tower is handed."""
        crop = self.setting("crop_size")
        size = self.setting("size")
        return int((crop or {}).get("height") or size.get("height") or size["shortest_edge"])

    def _refuse_odd_features(self) -> None:
        """Features must be one per patch, or they cannot be laid out as a picture again."""
        tower = (self.config.get("vision_config") or {}).get("model_type", self.default_tower)
        select = self.config.get("vision_feature_select_strategy", self.default_select)
        if (tower in _TOWERS_WITH_CLASS_TOKEN) != (select == "default"):
            raise UnsupportedModel(
                f"{self.folder}: a {tower} with vision_feature_select_strategy {select!r} does not give one feature "
                "per patch. Correct config.json."
            )

    def _vision_settings(self) -> dict[str, Any]:
        return {"vision_feature_layer": self.config.get("vision_feature_layer")}


def _pairs(canvases: Sequence[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((int(height), int(width)) for height, width in canvases)


def _tiles(processor: Any, pictures: Sequence[np.ndarray]) -> Pixels:
    """All pictures' tiles in one batch, without the processor's padding to an equal number of tiles."""
    import numpy as np
    import torch

    from easerve.models.encoder import Pixels

    batch = processor(images=list(pictures), input_data_format="channels_last", do_pad=False)
    return Pixels(
        values=torch.from_numpy(np.concatenate(batch["pixel_values"])),
        shapes={"image_sizes": torch.tensor([picture.shape[:2] for picture in pictures])},
    )
