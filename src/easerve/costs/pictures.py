"""What the encoder of a model sees of a picture or of a clip of sound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

from easerve.costs.base import ItemSize
from easerve.costs.shapes.find import find_shape, model_folder, published_config
from easerve.costs.shapes.model import ModelShape
from easerve.errors import StartupError
from easerve.models.anyres import Anyres
from easerve.models.registry import load_family
from easerve.models.smart_resize import smart_resize

SizeOf = Callable[[int, int], ItemSize]  # of height and width in pixels
_FRAMES_PER_SECOND = 50  # of Whisper's encoder
_LONGEST_SECONDS = 30


def picture_size(model: str) -> SizeOf:
    """For a model by its name or its folder, as its image processor resizes and tiles.

    Raises StartupError for a model that is not known, or that takes no pictures.

    Example: `picture_size("qwen2.5-vl-7b")(1080, 1920).tokens`.
    """
    shape, folder = find_shape(model), model_folder(model)
    if folder is None:
        return _published(shape, published_config(model))
    family = load_family(str(folder))
    if shape.encoder.span is None:
        return lambda height, width: _merged(shape, family.image_tokens(height, width))
    return _tiled(shape, family.config, family.image_tokens)


def audio_size(model: str) -> Callable[[float], ItemSize]:
    """For clips of so many seconds; longer ones than 30 s go through the encoder in pieces. Raises StartupError for a
    model that takes no sound."""
    shape = find_shape(model)
    if not hears(model):
        raise StartupError(f"{shape.name} takes no sound")

    def size(seconds: float) -> ItemSize:
        positions = max(1, ceil(seconds * _FRAMES_PER_SECOND))
        return ItemSize(positions, ceil(positions / shape.encoder.merge))

    return size


def hears(model: str) -> bool:
    """Whether it takes sound: its encoder is Whisper's, and sees 30 s at once."""
    return find_shape(model).encoder.span == _FRAMES_PER_SECOND * _LONGEST_SECONDS


def _published(shape: ModelShape, config: Mapping[str, Any]) -> SizeOf:
    if "image_grid_pinpoints" in config:
        return _tiled(shape, config)
    if "pixels" not in config:
        raise StartupError(f"{shape.name} takes no pictures")
    vision, pixels = config["vision_config"], config["pixels"]
    factor = vision["patch_size"] * vision["spatial_merge_size"]

    def size(height: int, width: int) -> ItemSize:
        rows, columns = smart_resize(
            height, width, factor=factor, min_pixels=pixels["shortest_edge"], max_pixels=pixels["longest_edge"]
        )
        return _merged(shape, (rows // factor) * (columns // factor))

    return size


def _merged(shape: ModelShape, tokens: int) -> ItemSize:
    return ItemSize(tokens * shape.encoder.merge, tokens)


def _tiled(shape: ModelShape, config: Mapping[str, Any], tokens: Callable[[int, int], int] | None = None) -> SizeOf:
    """One tile of the whole picture, and those of the canvas it is put on. `tokens`: where a family knows better."""
    tile, patch = config["vision_config"]["image_size"], config["vision_config"]["patch_size"]
    anyres = Anyres(tuple(map(tuple, config["image_grid_pinpoints"])), tile, tile // patch)
    count, span = tokens or anyres.tokens, shape.encoder.span or 0

    def size(height: int, width: int) -> ItemSize:
        rows, columns = anyres.canvas(height, width)
        tiles = 1 + (rows // tile) * (columns // tile)
        return ItemSize(tiles * span, count(height, width))

    return size
