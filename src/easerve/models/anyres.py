"""How many tokens a picture fills where it is cut into tiles of the encoder's own size (LLaVA's "anyres").

One tile shows the whole picture; the others a resized and padded one, whose padding is cut off again after encoding;
each row of what is left ends in a newline token. The arithmetic is that of transformers, rounding included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from easerve.errors import BadRequest

_SHRINK_FROM = 1.1  # an excess below this is left alone


@dataclass(frozen=True)
class Anyres:
    """Sizes of one model: canvases a picture may be put on, the tile, and patches along a tile's edge."""

    canvases: tuple[tuple[int, int], ...]  # (height, width) in pixels
    tile: int  # pixels along an edge
    side: int  # patches along an edge
    most_tiles: int | None = None  # features are scaled down to about this many tiles; None: never

    def tokens(self, height: int, width: int) -> int:
        """Positions that a picture of this size fills, newlines included."""
        canvas_height, canvas_width = self.canvas(height, width)
        rows, columns = self._unpadded(
            height, width, canvas_height // self.tile * self.side, canvas_width // self.tile * self.side
        )
        if self.most_tiles is not None:
            excess = math.sqrt(rows * columns / (self.most_tiles * self.side**2))
            if excess > _SHRINK_FROM:
                rows, columns = int(rows // excess), int(columns // excess)
                _require_some(rows, columns, height, width)
        return self.side**2 + rows * (columns + 1)

    def canvas(self, height: int, width: int) -> tuple[int, int]:
        """The canvas that keeps most of the picture's pixels, and of those the one that wastes least."""
        best = self.canvases[0]
        best_kept, best_wasted = 0, math.inf
        for canvas_height, canvas_width in self.canvases:
            scale = min(canvas_width / width, canvas_height / height)
            kept = min(int(width * scale) * int(height * scale), width * height)
            wasted = canvas_height * canvas_width - kept
            if kept > best_kept or (kept == best_kept and wasted < best_wasted):
                best, best_kept, best_wasted = (canvas_height, canvas_width), kept, wasted
        return best

    def _unpadded(self, height: int, width: int, rows: int, columns: int) -> tuple[int, int]:
        if width / height > columns / rows:
            content = int(round(height * (columns / width), 7))
            return rows - (rows - content) // 2 * 2, columns
        content = int(round(width * (rows / height), 7))
        return rows, columns - (columns - content) // 2 * 2


def _require_some(rows: int, columns: int, height: int, width: int) -> None:
    if rows < 1 or columns < 1:
        raise BadRequest(f"A picture of {width}x{height} is too elongated for this model: nothing is left. Crop it.")
