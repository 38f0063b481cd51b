"""Pictures with content of their own: every byte drawn from a seeded generator, so that no two are alike.

`smooth` is a coarse grid of random colours, enlarged: it compresses about as photographs do. `noise` draws every pixel,
the worst case for compression, as vLLM's `random-mm` does.
"""

from __future__ import annotations

import io
from random import Random
from typing import Literal

from PIL import Image

from easerve.client import data_uri

Look = Literal["smooth", "noise"]
Size = tuple[int, int]  # width, height in pixels
GRAIN = 8  # pixels a side of a cell of the grid


def picture(size: Size, look: Look, rng: Random) -> str:
    """A JPEG as a data URI. Pictures of 56x56 and more are distinct but for a chance below 2^-1000."""
    width, height = size
    grid = (width, height) if look == "noise" else (max(1, width // GRAIN), max(1, height // GRAIN))
    image = Image.frombytes("RGB", grid, rng.randbytes(3 * grid[0] * grid[1]))
    if grid != size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return data_uri(file.getvalue(), "image/jpeg")
