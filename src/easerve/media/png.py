"""Whether a PNG holds all its pixels as they were sent. Pillow takes what comes, and leaves black what is missing."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # per pixel, by colour type
_PASSES = ((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2))  # Adam7
_PIECE = 2**20  # inflated at a time


def check_sums(content: bytes | bytearray, check: Callable[[], None]) -> None:
    """Raises ValueError if pixel data do not have the checksum that was sent with them."""
    for name, data, checksum in _chunks(content):
        check()
        if name == b"IDAT" and zlib.crc32(data, zlib.crc32(b"IDAT")) != checksum:
            raise ValueError("pixel data have a wrong checksum")


def check_rows(content: bytes | bytearray, check: Callable[[], None]) -> None:
    """Raises ValueError if the pixel data end before the last row. As slow as decoding, so ask only on suspicion."""
    chunks = _chunks(content)
    inflate = zlib.decompressobj()
    missing = _inflated_size(bytes(next(chunks)[1]))
    for name, data, _ in chunks:
        rest = bytes(data) if name == b"IDAT" else b""
        while rest and missing > 0 and not inflate.eof:
            check()
            missing -= len(inflate.decompress(rest, _PIECE))
            rest = inflate.unconsumed_tail
    if missing - len(inflate.flush()) > 0:
        raise ValueError("pixel data end before the last row")


def _chunks(content: bytes | bytearray) -> Iterator[tuple[bytes, memoryview, int]]:
    """Name, data and checksum of each."""
    view = memoryview(content)
    at = 8
    while at + 8 <= len(view):
        end = at + 8 + int.from_bytes(view[at : at + 4])
        yield bytes(view[at + 4 : at + 8]), view[at + 8 : end], int.from_bytes(view[end : end + 4])
        at = end + 4


def _inflated_size(header: bytes) -> int:
    width, height = int.from_bytes(header[:4]), int.from_bytes(header[4:8])
    bits = header[8] * _SAMPLES[header[9]]
    passes = _PASSES if header[12] else ((0, 1, 0, 1),)
    size = 0
    for left, right_step, top, down_step in passes:
        columns, rows = len(range(left, width, right_step)), len(range(top, height, down_step))
        size += rows * (1 + (columns * bits + 7) // 8) if columns else 0  # one byte names the row's filter
    return size
