"""Bytes of a picture file to RGB pixels. Either right or refused: never partly grey, clipped or sideways.

Pillow reads through a file that can say stop, and pixels are converted in bands, so that neither a closed connection
nor the event loop waits for a large picture.
"""

from __future__ import annotations

import importlib
import io
import re
import threading
import time

import numpy as np
from PIL import ExifTags, Image, ImageFile

from easerve.errors import BadRequest, EAServeError, TooLarge, Unavailable
from easerve.media.contents import FORMATS, SUPPORTED, name_of, shorten
from easerve.media.options import MediaOptions
from easerve.media.png import check_rows, check_sums
from easerve.media.rgb import Pixels, true_transparency, upright, write_rgb

__all__ = ["Pixels", "decode"]

_IN_SCANS = {"JPEG", "MPO"}
_PIECE = 1024  # bytes a JPEG is read in: one scan may take 40, and each goes over the whole picture


def _load_plugins() -> None:
    """Register the readers of our formats and no others."""
    for name in ("Jpeg", "Png", "WebP", "Gif", "Bmp", "Tiff", "Mpo", "Avif"):
        try:
            importlib.import_module(f"PIL.{name}ImagePlugin")
        except ImportError:  # AVIF came with Pillow 11.3
            continue


_load_plugins()


class _Source(io.BytesIO):
    """The file, for Pillow. Reading ends with an error on a stop, after `timeout_s`, and, if `whole`, at the end.

    `whole` refuses a picture that is cut off even if something in the process set Pillow to overlook that.
    """

    def __init__(self, content: bytes | bytearray, stop: threading.Event, timeout_s: float) -> None:
        super().__init__(content)
        self._stop = stop
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self.whole = False

    def read(self, size: int | None = -1, /) -> bytes:
        self.check()
        data = super().read(size)
        if self.whole and not data and size:
            raise EOFError("the file ends early")
        return data

    def check(self) -> None:
        """Raises if the work should end here."""
        if self._stop.is_set():
            raise Unavailable("decoding was stopped")
        if time.monotonic() > self._deadline:
            raise BadRequest(f"the picture takes longer than {self._timeout_s:g} s to decode; save it anew, or smaller")


def decode(content: bytes | bytearray, options: MediaOptions, stop: threading.Event | None = None) -> Pixels:
    """(height, width, 3) uint8, contiguous: the first frame, upright as its EXIF says, on white where transparent.

    Colour profiles are not applied; 16-bit samples keep their upper half. Raises BadRequest for what is no whole
    picture of a supported format, TooLarge for more than `max_pixels`, which is told from the header before anything
    is decoded, and Unavailable once `stop` is set.
    """
    if not content:
        raise BadRequest(f"the picture has zero bytes; {SUPPORTED}")
    source = _Source(content, stop or threading.Event(), options.decode_timeout_s)
    try:
        return _decode(content, source, options)
    except EAServeError:
        raise
    except Image.DecompressionBombError as error:  # where a reader asks before it tells the size
        found = re.search(r"\d+", str(error))
        raise _too_large(f"{found[0] if found else 'far too many'} pixels", options) from None
    except Exception as error:  # Pillow raises anything at all on broken files
        reason = shorten(str(error) or type(error).__name__)
        raise BadRequest(
            f"the picture is broken or cut off ({reason}); save it anew and send the whole file"
        ) from error


def _decode(content: bytes | bytearray, source: _Source, options: MediaOptions) -> Pixels:
    source.check()
    with _open(content, source) as image:
        _check_size(image, options)
        true_transparency(image)
        if image.format in _IN_SCANS:
            image.decodermaxblock = _PIECE
        if image.format == "PNG":
            check_sums(content, source.check)
        source.whole = True
        image.load()
        _check_size(image, options)
        if image.format == "PNG" and _may_lack_rows(image):
            check_rows(content, source.check)
        pixels = np.empty((image.height, image.width, 3), np.uint8)
        write_rgb(image, pixels, source.check)
        return upright(pixels, _orientation(image))


def _open(content: bytes | bytearray, source: _Source) -> ImageFile.ImageFile:
    """The header. Readers are called directly: `Image.open` judges sizes by a process-wide limit, we by our own."""
    prefix = bytes(content[:16])
    for name in FORMATS:
        factory, accept = Image.OPEN.get(name, (None, None))
        if factory is not None and accept is not None and accept(prefix) is True:
            return factory(source, "")
    raise BadRequest(f"the picture is {name_of(content)}; {SUPPORTED}")


def _may_lack_rows(image: Image.Image) -> bool:
    """Rows that never came are zero; of interlaced pictures, other rows than the last may be missing."""
    last = image.crop((0, image.height - 1, image.width, image.height))
    return bool(image.info.get("interlace")) or not np.asarray(last).any()


def _check_size(image: Image.Image, options: MediaOptions) -> None:
    size = f"{image.width} x {image.height} pixels"
    if image.width * image.height > options.max_pixels:
        raise _too_large(size, options)
    if min(image.size) < options.min_side:
        raise BadRequest(f"the picture has {size}; each side must have {options.min_side} or more; scale it up")


def _too_large(what: str, options: MediaOptions) -> TooLarge:
    return TooLarge(f"the picture has {what}; the most is {options.max_pixels} pixels; scale it down")


def _orientation(image: Image.Image) -> int:
    """EXIF's 1 to 8; 1, upright, where EXIF is absent or broken."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # a broken remark does not make a broken picture
        return 1
