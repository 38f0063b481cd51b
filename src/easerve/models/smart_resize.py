"""To what size the Qwen-VL processors bring a picture: edges divisible by a token's edge, area within bounds.

The arithmetic is that of transformers' `smart_resize`, rounding included, so that counts agree to the token.
"""

from __future__ import annotations

import math

from easerve.errors import BadRequest

MAX_ASPECT_RATIO = 200


def smart_resize(height: int, width: int, *, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """(height, width) after resizing; both multiples of `factor`."""
    if max(height, width) > MAX_ASPECT_RATIO * min(height, width):
        raise BadRequest(
            f"A picture of {width}x{height} is too elongated for this model; "
            f"its longer edge may be at most {MAX_ASPECT_RATIO} times the shorter. Crop it."
        )
    rows = round(height / factor) * factor
    columns = round(width / factor) * factor
    if rows * columns > max_pixels:
        scale = math.sqrt((height * width) / max_pixels)
        rows = max(factor, math.floor(height / scale / factor) * factor)
        columns = max(factor, math.floor(width / scale / factor) * factor)
    elif rows * columns < min_pixels:
        scale = math.sqrt(min_pixels / (height * width))
        rows = math.ceil(height * scale / factor) * factor
        columns = math.ceil(width * scale / factor) * factor
    return rows, columns
