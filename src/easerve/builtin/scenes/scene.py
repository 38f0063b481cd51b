"""What a picture shows: up to four coloured shapes, one a corner, and which scenes training never meets.

A scene is held out from training by a hash of its content, so that no held-out scene was ever trained on, whatever
the size it is drawn at.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 160, 50),
    "blue": (40, 70, 220),
    "yellow": (240, 210, 30),
    "purple": (140, 40, 160),
    "black": (20, 20, 20),
}
FORMS = ("circle", "square", "triangle", "cross")
PLACES = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True)
class Shape:
    """One coloured form in one corner."""

    colour: str
    form: str
    place: str

    @property
    def name(self) -> str:
        return f"{self.colour} {self.form}"


@dataclass(frozen=True)
class Scene:
    """One to four shapes, at most one a corner, in the order of `PLACES`."""

    shapes: tuple[Shape, ...]

    @property
    def held_out(self) -> bool:
        """One scene in eight is never trained on."""
        text = "|".join(f"{shape.name} {shape.place}" for shape in self.shapes)
        return hashlib.blake2b(text.encode(), digest_size=4).digest()[0] % 8 == 0

    def at(self, place: str) -> Shape | None:
        return next((shape for shape in self.shapes if shape.place == place), None)


def random_scene(rng: Random, *, held_out: bool, colours: int = len(COLOURS)) -> Scene:
    """A scene from the held-out or the training side, in at most so many `colours`."""
    while True:
        places = rng.sample(PLACES, rng.randint(1, 4))
        palette = rng.sample(tuple(COLOURS), colours)
        shapes = (Shape(rng.choice(palette), rng.choice(FORMS), place) for place in PLACES if place in places)
        scene = Scene(tuple(shapes))
        if scene.held_out == held_out:
            return scene
