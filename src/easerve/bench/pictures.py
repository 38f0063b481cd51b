"""Pictures with content of their own: every byte drawn from a seeded generator, so that no two are alike.

`smooth` is a coarse grid of random colours, enlarged: it compresses about as photographs do. `noise` draws every pixel,
the worst case for compression, as vLLM's `random-mm` does.

Where only sizes matter, `sketch` stands in for a picture.
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
    grid = _grid(size, look)
    image = Image.frombytes("RGB", grid, _colours(grid, rng))
    if grid != size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return data_uri(file.getvalue(), "image/jpeg")


def sketch(size: Size, look: Look, rng: Random) -> str:
    """What can be told of such a picture without drawing it: `sketch:WIDTHxHEIGHT:` and a name of its content.

    Takes from the generator what the picture would, so that a workload's other draws stay as they are.
    """
    colours = _colours(_grid(size, look), rng)
    return f"sketch:{size[0]}x{size[1]}:{colours[:16].hex()}"


def _grid(size: Size, look: Look) -> Size:
    width, height = size
    return (width, height) if look == "noise" else (max(1, width // GRAIN), max(1, height // GRAIN))


def _colours(grid: Size, rng: Random) -> bytes:
    return rng.randbytes(3 * grid[0] * grid[1])
