"""Picture files for tests, made in memory."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

from easerve.media.decode import Pixels, decode
from easerve.media.options import MediaOptions


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def scene(height: int = 24, width: int = 40) -> Image.Image:
    """Smooth colours, different in every corner."""
    y, x = np.mgrid[0:height, 0:width]
    return Image.fromarray(
        np.stack([x * 255 // width, y * 255 // height, 255 - x * 255 // width], axis=2).astype(np.uint8)
    )


def noise(height: int, width: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def data_uri(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def decoded(content: bytes, **options: Any) -> Pixels:
    return decode(content, MediaOptions(**options))


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    width: int, height: int, depth: int, colour: int, rows: bytes, *extra: bytes, interlaced: bool = False
) -> bytes:
    """A PNG by hand: `colour` 0 grey, 2 RGB, 4 grey and alpha, 6 RGB and alpha; `rows` with their filter bytes."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced))
    body = b"".join(extra) + chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + body + chunk(b"IEND", b"")


def grey_tiff(row: bytes, width: int, bits: int, photometric: int) -> bytes:
    """A little-endian TIFF of one uncompressed row by hand."""
    tags = [(256, width), (257, 1), (258, bits), (259, 1), (262, photometric), (273, 8), (277, 1), (278, 1)]
    tags.append((279, len(row)))
    at = 8 + len(row)
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", at) + row + directory + b"\0\0\0\0"
