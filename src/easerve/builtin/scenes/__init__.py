"""Scenes the built-in model understands: coloured shapes in the four corners of a picture, questions about them,
and small sums in words. The trainer, the demo and the tests all draw from here.
"""

from easerve.builtin.scenes.asking import (
    ASKERS,
    ORDINALS,
    TRAINED,
    Asker,
    about_one,
    about_two,
    colour_of,
    count,
    describe,
    form_of,
    has,
    is_there,
    what_is_where,
    where_is,
)
from easerve.builtin.scenes.drawing import LARGEST, SMALLEST, draw, random_size
from easerve.builtin.scenes.examples import Example, held_out
from easerve.builtin.scenes.question import NUMBERS, Question
from easerve.builtin.scenes.scene import COLOURS, FORMS, PLACES, Scene, Shape, random_scene
from easerve.builtin.scenes.sums import longer_sum, small_sum, sum_is_held_out

__all__ = [
    "ASKERS", "COLOURS", "FORMS", "LARGEST", "NUMBERS", "ORDINALS", "PLACES", "SMALLEST", "TRAINED", "Asker", "Example",
    "Question", "Scene", "Shape", "about_one", "about_two", "colour_of", "count", "describe", "draw", "form_of", "has",
    "held_out", "is_there", "longer_sum", "random_scene", "random_size", "small_sum", "sum_is_held_out",
    "what_is_where", "where_is",
]  # fmt: skip
