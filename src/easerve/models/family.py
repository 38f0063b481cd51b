"""What the families here have in common, front half: reading numbers out of config.json, and the fingerprint.

Files on the hub leave out what equals a default, so each family names its defaults; a test holds them against
transformers'.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from easerve.errors import BadRequest, StartupError
from easerve.models.base import Family

_DEFAULT_CONTEXT = {  # of text models, by model type
    "llama": 2048,
    "mistral": 131072,
    "qwen2": 32768,
    "qwen3": 32768,
    "qwen2_vl_text": 32768,
    "qwen2_5_vl_text": 32768,
    "qwen3_vl_text": 128000,
}


class TransformersFamily(Family):
    """A family whose modules and image processor are transformers'."""

    default_text: ClassVar[str]  # text model type where config.json does not say
    default_image_token: ClassVar[int]
    default_vision: ClassVar[Mapping[str, Any]]
    default_processor: ClassVar[Mapping[str, Any]]

    @property
    def image_token_id(self) -> int:
        for key in ("image_token_id", "image_token_index"):
            if key in self.config:
                return int(self.config[key])
        return self.default_image_token

    @property
    def context_length(self) -> int:
        text = self.config.get("text_config") or self.config  # older Qwen-VL files are flat
        stated = text.get("max_position_embeddings")
        if stated is None:
            stated = _DEFAULT_CONTEXT.get(text.get("model_type", self.default_text))
        if stated is None:
            raise StartupError(
                f"{self.folder / 'config.json'} does not say how long a context can be; add "
                "'max_position_embeddings' to its text_config."
            )
        return int(stated)

    def fingerprint(self) -> bytes:
        settings = {"family": type(self).__name__, "processor": self.processor, "vision": self._vision_settings()}
        return json.dumps(settings, sort_keys=True, separators=(",", ":")).encode()

    def _vision_settings(self) -> dict[str, Any]:
        """What of config.json, apart from the weights' own shape, decides what an item becomes."""
        return {}

    def vision(self, key: str) -> Any:
        """A value of the vision config."""
        given = self.config.get("vision_config") or {}
        return given.get(key, self.default_vision[key])

    def setting(self, key: str) -> Any:
        """A value of the image processor's settings."""
        given = self.processor.get(key)
        return self.default_processor[key] if given is None else given

    def require_same(self, what: str, ours: Any, theirs: Any) -> None:
        """The processor's settings and config.json must describe one model."""
        if ours != theirs:
            raise StartupError(
                f"{self.folder}: the image processor's {what} is {ours}, but config.json says {theirs}. "
                "Take both files from the same model."
            )


def require_size(height: int, width: int) -> None:
    """A picture has pixels."""
    if height < 1 or width < 1:
        raise BadRequest(f"A picture of {width}x{height} has no pixels.")
