"""Bytes of a picture file to RGB pixels. Either right or refused: never partly grey, clipped or sideways."""

from __future__ import annotations

import io
import struct

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from easerve.errors import BadRequest, EAServeError, TooLarge

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "AVIF")
_SUPPORTED = "send JPEG, PNG, WebP, GIF, BMP, TIFF or AVIF"
_KNOWN_OTHERS = (
    (b"<svg", "an SVG drawing"),
    (b"%pdf", "a PDF document"),
    (b"<!doctype html", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"<?xml", "an XML document"),
)
_BROKEN = (OSError, ValueError, SyntaxError, EOFError, KeyError, IndexError, TypeError, struct.error, OverflowError)

Pixels = npt.NDArray[np.uint8]


def decode(content: bytes, max_pixels: int) -> Pixels:
    """(height, width, 3) uint8: the first frame, upright as its EXIF says, on white where it is transparent.

    Raises BadRequest for what is no whole picture of a supported format, TooLarge for more than `max_pixels`, which is
    told from the header, before anything is decoded.
    """
    if not content:
        raise BadRequest(f"the picture has zero bytes; {_SUPPORTED}")
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise _too_large(f"{image.width}x{image.height} pixels", max_pixels)
            image.seek(0)
            image.load()
            return np.ascontiguousarray(_to_rgb(ImageOps.exif_transpose(image)))
    except EAServeError:
        raise
    except Image.DecompressionBombError:
        raise _too_large("far too many pixels", max_pixels) from None
    except UnidentifiedImageError:
        raise BadRequest(f"{_name(content)}; {_SUPPORTED}") from None
    except (*_BROKEN, MemoryError) as error:
        raise BadRequest(f"the picture is broken: {error or type(error).__name__}; {_SUPPORTED}") from error


def _to_rgb(image: Image.Image) -> Pixels:
    if image.mode.startswith("I"):
        return _from_deep(np.asarray(image))
    if image.mode == "F":
        raise BadRequest(f"pictures with floating-point pixels are not supported; {_SUPPORTED} with 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.asarray(image.convert("RGB"))


def _from_deep(grey: npt.NDArray[np.generic]) -> Pixels:
    """16-bit grey to 8 bits by its upper half."""
    values = grey.astype(np.int64)
    if values.min() < 0 or values.max() > 65535:
        raise BadRequest(f"pictures with more than 16 bits a channel are not supported; {_SUPPORTED}")
    return np.repeat((values >> 8).astype(np.uint8)[..., None], 3, axis=2)


def _too_large(what: str, max_pixels: int) -> TooLarge:
    return TooLarge(f"the picture has {what}; the most is {max_pixels}; scale it down")


def _name(content: bytes) -> str:
    """What the bytes are, where it is not a picture we take."""
    start = content[:256].lstrip().lower()
    if start.startswith(b"<?xml") and b"<svg" in content[:4096].lower():
        return "the picture is an SVG drawing"
    for magic, name in _KNOWN_OTHERS:
        if start.startswith(magic):
            return f"the picture is {name}"
    return "the picture is of no format this server knows"
