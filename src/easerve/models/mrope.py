"""Where a token sits in Qwen-VL's three-row positions (time, height, width). Pure arithmetic on spans and grids.

Text counts on in all three rows; a picture spans a box that begins where the text before it ended; what follows
begins one past the largest position of the picture.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from easerve.errors import EAServeError
from easerve.models.base import MediaSpan


def mrope_positions(length: int, media: Sequence[MediaSpan], merge: int) -> tuple[NDArray[np.int64], int]:
    """(3, length) positions and the one after them. `merge`: patches per token along an edge."""
    rows = np.empty((3, length), dtype=np.int64)
    at = 0  # index in the prompt
    position = 0
    for span in sorted(media, key=lambda span: span.offset):
        end = span.offset + span.tokens
        if span.offset < at or end > length:
            raise EAServeError(f"Item at {span.offset}..{end} overlaps another, or passes the prompt's end {length}.")
        position = _text(rows[:, at : span.offset], position)
        position = _box(rows[:, span.offset : end], span, merge, position)
        at = end
    return rows, _text(rows[:, at:], position)


def _text(rows: NDArray[np.int64], position: int) -> int:
    end = position + int(rows.shape[1])
    rows[:] = np.arange(position, end)
    return end


def _box(rows: NDArray[np.int64], span: MediaSpan, merge: int, position: int) -> int:
    time, height, width = span.grid
    shape = (time, height // merge, width // merge)
    if shape[0] * shape[1] * shape[2] != span.tokens:
        raise EAServeError(f"Item at {span.offset} has {span.tokens} tokens, but its grid {span.grid} makes {shape}.")
    rows[:] = np.indices(shape).reshape(3, -1) + position
    return position + max(shape)
