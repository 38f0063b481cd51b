"""Pixels of every mode Pillow reads to 8-bit RGB, in bands that are short enough to share the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile

from easerve.errors import BadRequest

Pixels = npt.NDArray[np.uint8]
_Band = Callable[[Image.Image], npt.NDArray[np.uint8]]

_BAND = 256 * 1024  # pixels; a few milliseconds each
_WHITE = 255
_PHOTOMETRIC = 262  # TIFF tag; 0: white is zero
_SAMPLE_SCALE = {"L;2": 85, "L;4": 17}  # what Pillow multiplies grey samples of 2 and 4 bits by


def write_rgb(image: Image.Image, out: Pixels, check: Callable[[], None]) -> None:
    """Write `image`, loaded, to `out` (height, width, 3), on white where it is transparent.

    `check` is called between bands and may raise. Raises BadRequest for modes without an agreed brightness range.
    """
    convert = _converter(image)
    rows = max(1, _BAND // image.width)
    for top in range(0, image.height, rows):
        check()
        bottom = min(top + rows, image.height)
        out[top:bottom] = convert(image.crop((0, top, image.width, bottom)))


def _converter(image: Image.Image) -> _Band:
    if image.mode.startswith("I;16"):
        return _from_16_bit(image)
    if image.mode in {"I", "F"}:
        raise BadRequest("the picture has 32-bit samples, for which no brightness range is agreed; save 8 or 16 bits")
    if image.has_transparency_data:
        return _on_white
    return lambda band: np.asarray(band.convert("RGB"))


def _on_white(band: Image.Image) -> npt.NDArray[np.uint8]:
    rgba = band.convert("RGBA")
    page = Image.new("RGB", band.size, (_WHITE,) * 3)
    page.paste(rgba, mask=rgba)
    return np.asarray(page)


def _from_16_bit(image: Image.Image) -> _Band:
    """Grey of 16 bits (or 12, in TIFF) to 8 by its upper bits, as Pillow does with colour."""
    tags: Any = getattr(image, "tag_v2", {})
    shift = 4 if tags.get(258) in ((12,), 12) else 8  # BitsPerSample
    white_is_zero = tags.get(_PHOTOMETRIC) == 0
    clear = image.info.get("transparency")

    def convert(band: Image.Image) -> npt.NDArray[np.uint8]:
        deep = np.asarray(band)
        grey = (deep >> shift).astype(np.uint8)
        if white_is_zero:
            grey = _WHITE - grey
        if isinstance(clear, int):
            grey[deep == clear] = _WHITE
        return grey[..., None]

    return convert


def true_transparency(image: ImageFile.ImageFile) -> None:
    """PNG names its transparent colour in the file's sample depth: bring it to that of the pixels, before loading."""
    clear = image.info.get("transparency")
    raw = str(image.tile[0][3]) if image.tile else ""
    if raw == "RGB;16B" and isinstance(clear, tuple):
        image.info["transparency"] = tuple(value >> 8 for value in clear)
    elif raw in _SAMPLE_SCALE and isinstance(clear, int):
        image.info["transparency"] = min(clear * _SAMPLE_SCALE[raw], _WHITE)


def upright(pixels: Pixels, orientation: int) -> Pixels:
    """`pixels` (height, width, 3) turned and mirrored as EXIF's `orientation` (1 to 8) asks; contiguous."""
    if orientation in {5, 6, 7, 8}:
        pixels = pixels.swapaxes(0, 1)
    if orientation in {3, 4, 7, 8}:
        pixels = pixels[::-1]
    if orientation in {2, 3, 6, 7}:
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
