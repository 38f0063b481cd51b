"""At which sizes each piece is asked for, once; between them it is interpolated.

Steps are small where kernels go in waves (a matrix of a few more rows may need a whole wave more).
"""

from __future__ import annotations

from easerve.costs.grid import Curve, Surface, geometric
from easerve.costs.pieces import Piece, Seconds

_FINE, _MIDDLE, _COARSE = 1.06, 1.15, 1.5
_LONGEST = 131072

_ONE: dict[Piece, list[int]] = {
    "rows": geometric(1, _LONGEST, _FINE),
    "decode_rows": geometric(1, 1024, _FINE),
    "head": geometric(1, 1024, _MIDDLE),
    "exchange": geometric(1, _LONGEST, _MIDDLE),
    "positions": geometric(1, 2 * _LONGEST, _FINE),
    "windows": geometric(1, 4096, _MIDDLE),
    "merging": geometric(1, 2 * _LONGEST, _MIDDLE),
    "joining": geometric(1, 2 * _LONGEST, _MIDDLE),
}
_TWO: dict[Piece, tuple[list[int], list[int]]] = {
    "prefill": (geometric(1, _LONGEST, _MIDDLE), [0, *geometric(128, _LONGEST, 2)]),
    "decode": (geometric(1, 1024, _COARSE), geometric(1, _LONGEST, 2)),
    "attention": (geometric(1, 1024, _COARSE), geometric(16, 65536, _MIDDLE)),
}


def tabulated(piece: Piece, seconds: Seconds) -> Seconds:
    """`seconds` at the piece's sizes, as a curve or a surface that is quick to ask."""
    if piece in _TWO:
        return Surface.of(seconds, *_TWO[piece])
    return Curve.of(lambda size: seconds(size, 0), _ONE[piece])
