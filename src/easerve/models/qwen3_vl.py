"""Qwen3-VL, dense: Qwen2-VL's picture arithmetic with larger patches, and deepstack levels beside the embedding.

The levels are features of earlier vision layers, added to the first hidden states of the language model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from easerve.models.qwen2_vl import Qwen2VL


class Qwen3VL(Qwen2VL):
    architectures: ClassVar[tuple[str, ...]] = ("Qwen3VLForConditionalGeneration",)
    default_text = "qwen3_vl_text"
    default_vision: ClassVar[Mapping[str, Any]] = {"patch_size": 16, "spatial_merge_size": 2}
