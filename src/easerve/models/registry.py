"""Which family serves a checkpoint: by the architecture its config.json names."""

from __future__ import annotations

from easerve.errors import StartupError, UnsupportedModel
from easerve.models.base import Family
from easerve.models.checkpoint import locate, read_json, read_processor
from easerve.models.llava_next import LlavaNext
from easerve.models.llava_onevision import LlavaOnevision
from easerve.models.qwen2_vl import Qwen2VL
from easerve.models.qwen3_vl import Qwen3VL

FAMILIES: tuple[type[Family], ...] = (Qwen2VL, Qwen3VL, LlavaNext, LlavaOnevision)
_BY_ARCHITECTURE = {name: family for family in FAMILIES for name in family.architectures}


def load_family(model: str, revision: str | None = None) -> Family:
    """The family of `model` (a folder or a hub id), ready to count tokens and to load its parts. No torch.

    Example: `load_family("Qwen/Qwen2.5-VL-3B-Instruct").image_tokens(1080, 1920)`.
    """
    folder = locate(model, revision)
    config = read_json(folder / "config.json")
    stated = config.get("architectures") or []
    if not stated:
        raise StartupError(f"{folder / 'config.json'} names no architecture; restore its 'architectures' list.")
    family = next((_BY_ARCHITECTURE[name] for name in stated if name in _BY_ARCHITECTURE), None)
    if family is None:
        raise UnsupportedModel(
            f"{model!r} is a {stated[0]}, which is not supported. Supported: {', '.join(sorted(_BY_ARCHITECTURE))}."
        )
    if "quantization_config" in config:
        raise UnsupportedModel(
            f"{model!r} is quantized, which is not supported here. Use the checkpoint in bfloat16 or float16."
        )
    try:
        return family(folder, config, read_processor(folder))
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise StartupError(
            f"{folder}: config.json or the image processor's settings hold a value that cannot be used "
            f"({type(error).__name__}: {error}). Restore both files from the original model."
        ) from error
