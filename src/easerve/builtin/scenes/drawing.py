"""Scenes as pictures, of any size; a generator varies shade, place and size of the shapes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from PIL import Image, ImageDraw

from easerve.builtin.scenes.scene import COLOURS, Scene, Shape

SMALLEST, LARGEST = 84, 168  # pixels a side


def random_size(rng: Random) -> tuple[int, int]:
    """Width and height in pixels, each on its own."""
    return rng.randint(SMALLEST, LARGEST), rng.randint(SMALLEST, LARGEST)


def draw(scene: Scene, size: tuple[int, int], rng: Random) -> Image.Image:
    """The scene as an RGB picture of `size` (width, height); `rng` varies shade, place and size of the shapes."""
    shade = rng.randint(225, 255)
    picture = Image.new("RGB", size, (shade, shade, shade))
    canvas = ImageDraw.Draw(picture)
    for shape in scene.shapes:
        _draw_shape(canvas, shape, size, rng)
    return picture


def _draw_shape(canvas: ImageDraw.ImageDraw, shape: Shape, size: tuple[int, int], rng: Random) -> None:
    half_width, half_height = size[0] / 2, size[1] / 2
    radius = min(half_width, half_height) * rng.uniform(0.32, 0.42)
    x = half_width * (0.5 + rng.uniform(-0.06, 0.06) + ("right" in shape.place))
    y = half_height * (0.5 + rng.uniform(-0.06, 0.06) + ("bottom" in shape.place))
    colour = tuple(max(0, min(255, part + rng.randint(-12, 12))) for part in COLOURS[shape.colour])
    _FORM_PAINTERS[shape.form](canvas, x, y, radius, colour)


Colour = tuple[int, ...]


def _circle(canvas: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: Colour) -> None:
    canvas.ellipse((x - r, y - r, x + r, y + r), fill=colour)


def _square(canvas: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: Colour) -> None:
    side = 0.88 * r
    canvas.rectangle((x - side, y - side, x + side, y + side), fill=colour)


def _triangle(canvas: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: Colour) -> None:
    canvas.polygon(((x, y - r), (x + r, y + 0.8 * r), (x - r, y + 0.8 * r)), fill=colour)


def _cross(canvas: ImageDraw.ImageDraw, x: float, y: float, r: float, colour: Colour) -> None:
    arm = r / 3
    canvas.rectangle((x - r, y - arm, x + r, y + arm), fill=colour)
    canvas.rectangle((x - arm, y - r, x + arm, y + r), fill=colour)


_FORM_PAINTERS: dict[str, Callable[[ImageDraw.ImageDraw, float, float, float, Colour], None]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "cross": _cross,
}
