"""Scenes the built-in model understands: coloured shapes in the four corners of a picture, questions about them,
and small sums in words. The trainer, the demo and the tests all draw from here.

A scene is held out from training by a hash of its content, so that no held-out scene was ever trained on, whatever
the size it is drawn at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from PIL import Image, ImageDraw

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
NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
)  # fmt: skip
ORDINALS = ("first", "second")
SMALLEST, LARGEST = 84, 168  # pixels a side


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


@dataclass(frozen=True)
class Question:
    """A question, its one right answer, and the skill it needs."""

    text: str
    answer: str
    kind: str


@dataclass(frozen=True)
class Example:
    """A question with the pictures it is about; no pictures for text alone."""

    pictures: tuple[Image.Image, ...]
    question: str
    answer: str
    kind: str


def random_scene(rng: Random, *, held_out: bool, colours: int = len(COLOURS)) -> Scene:
    """A scene from the held-out or the training side, in at most so many `colours`."""
    while True:
        places = rng.sample(PLACES, rng.randint(1, 4))
        palette = rng.sample(tuple(COLOURS), colours)
        shapes = (Shape(rng.choice(palette), rng.choice(FORMS), place) for place in PLACES if place in places)
        scene = Scene(tuple(shapes))
        if scene.held_out == held_out:
            return scene


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


def count(scene: Scene, where: str, rng: Random) -> Question:
    """How many shapes there are."""
    return Question(f"how many shapes are there{where} ?", NUMBERS[len(scene.shapes)], "count")


def what_is_where(scene: Scene, where: str, rng: Random) -> Question:
    """What stands in one corner; two thirds of the questions are about a corner that holds something."""
    place = rng.choice([shape.place for shape in scene.shapes]) if rng.random() < 0.66 else rng.choice(PLACES)
    shape = scene.at(place)
    answer = f"a {shape.name}" if shape else "nothing"
    return Question(f"what is at the {place}{_of(where)} ?", answer, "where")


def is_there(scene: Scene, where: str, rng: Random) -> Question:
    """Whether a shape is in the picture: as often yes as no, and mostly nearly right where it is no."""
    name, there = _maybe_there(scene, rng, 0.5)
    return Question(f"is there a {name}{where} ?", "yes" if there else "no", "is there")


def has(scene: Scene, where: str, rng: Random) -> Question:
    """Whether any shape has a colour or a form: one feature where `is_there` asks for two at once."""
    there = rng.random() < 0.5
    features = ({shape.colour for shape in scene.shapes}, {shape.form for shape in scene.shapes})
    chosen, every = rng.choice(((features[0], tuple(COLOURS)), (features[1], FORMS)))
    choices = sorted(chosen) if there else [name for name in every if name not in chosen]
    if not choices:
        return has(scene, where, rng)
    name = rng.choice(choices)
    article = "a" if name in FORMS else "anything"
    return Question(f"is there {article} {name}{where} ?", "yes" if there else "no", "has")


def where_is(scene: Scene, where: str, rng: Random) -> Question:
    """In which corner a shape is; of several alike, the first in the order of `PLACES`."""
    name, there = _maybe_there(scene, rng, 0.75)
    found = next((shape.place for shape in scene.shapes if shape.name == name), None)
    return Question(f"where is the {name}{where} ?", f"at the {found}" if there else "nowhere", "where is")


def colour_of(scene: Scene, where: str, rng: Random) -> Question:
    """The colour of a form that occurs once; without one, what stands where."""
    shape = _unmistakable(scene, lambda shape: shape.form, rng)
    if shape is None:
        return what_is_where(scene, where, rng)
    return Question(f"what colour is the {shape.form}{where} ?", shape.colour, "colour of")


def form_of(scene: Scene, where: str, rng: Random) -> Question:
    """The form of a colour that occurs once; without one, what stands where."""
    shape = _unmistakable(scene, lambda shape: shape.colour, rng)
    if shape is None:
        return what_is_where(scene, where, rng)
    return Question(f"what is {shape.colour}{where} ?", f"a {shape.form}", "form of")


def _unmistakable(scene: Scene, feature: Callable[[Shape], str], rng: Random) -> Shape | None:
    """A shape whose feature no other shape of the scene has, or None."""
    features = [feature(shape) for shape in scene.shapes]
    single = [shape for shape in scene.shapes if features.count(feature(shape)) == 1]
    return rng.choice(single) if single else None


def _maybe_there(scene: Scene, rng: Random, chance: float) -> tuple[str, bool]:
    """A shape's name, and whether the scene has it; it has with `chance`."""
    names = {shape.name for shape in scene.shapes}
    if rng.random() < chance:
        return rng.choice(sorted(names)), True
    while (name := _near_miss(scene, rng)) in names:
        pass
    return name, False


def _near_miss(scene: Scene, rng: Random) -> str:
    shape = rng.choice(scene.shapes)
    colour, form = rng.choice(tuple(COLOURS)), rng.choice(FORMS)
    return rng.choice((f"{shape.colour} {form}", f"{colour} {shape.form}", f"{colour} {form}"))


def describe(scene: Scene, where: str, rng: Random) -> Question:
    """Everything in the picture, corner by corner; the corner comes first, so that what follows is told by it."""
    text = "describe the picture ." if not where else f"describe the {where.split()[2]} picture ."
    answer = " and ".join(f"at the {shape.place} a {shape.name}" for shape in scene.shapes)
    return Question(text, f"{answer} .", "describe")


def _of(where: str) -> str:
    return where.replace(" in ", " of ")


Asker = Callable[[Scene, str, Random], Question]
ASKERS: tuple[Asker, ...] = (count, what_is_where, is_there, describe)  # the skills that are measured
TRAINED: tuple[Asker, ...] = (
    count, what_is_where, is_there, is_there, has, where_is, colour_of, form_of, describe,
)  # fmt: skip


def about_one(scene: Scene, rng: Random, ask: Asker) -> Question:
    """A question about the only picture."""
    return ask(scene, "", rng)


def about_two(scenes: tuple[Scene, Scene], rng: Random, ask: Asker) -> Question:
    """A question about the first or the second of two pictures."""
    which = rng.randrange(2)
    return ask(scenes[which], f" in the {ORDINALS[which]} picture", rng)


def sum_is_held_out(a: int, b: int) -> bool:
    """One ordered pair in six is never trained on (its mirror image is, so that the sum can be known)."""
    return a != b and (7 * min(a, b) + 3 * max(a, b)) % 3 == 0 and (a > b) == ((a + b) % 2 == 0)


def small_sum(rng: Random, *, held_out: bool) -> Question:
    """What two numbers from zero to nine add up to, in words."""
    while True:
        a, b = rng.randint(0, 9), rng.randint(0, 9)
        if sum_is_held_out(a, b) == held_out:
            return Question(f"what is {NUMBERS[a]} plus {NUMBERS[b]} ?", NUMBERS[a + b], "sum")


def longer_sum(rng: Random) -> Question:
    """What three or four numbers add up to. For training only: who learns it knows that the order does not matter."""
    while True:
        numbers = [rng.randint(0, 9) for _ in range(rng.randint(3, 4))]
        if sum(numbers) < len(NUMBERS):
            return Question(f"what is {' plus '.join(NUMBERS[n] for n in numbers)} ?", NUMBERS[sum(numbers)], "sum")


def held_out(kind: str, amount: int, seed: int = 0, askers: tuple[Asker, ...] = ASKERS) -> list[Example]:
    """`amount` examples that were never trained on; `kind` is "one", "two" (pictures) or "sum".

    Questions about pictures are asked by `askers` in turn.
    """
    return list(_HELD_OUT[kind](amount, Random(f"held out {kind} {seed}"), askers))


def _one(amount: int, rng: Random, askers: tuple[Asker, ...]) -> Iterator[Example]:
    for index in range(amount):
        scene = random_scene(rng, held_out=True)
        question = about_one(scene, rng, askers[index % len(askers)])
        yield _example((draw(scene, random_size(rng), rng),), question)


def _two(amount: int, rng: Random, askers: tuple[Asker, ...]) -> Iterator[Example]:
    for index in range(amount):
        scenes = (random_scene(rng, held_out=True), random_scene(rng, held_out=True))
        question = about_two(scenes, rng, askers[index % len(askers)])
        yield _example(tuple(draw(scene, random_size(rng), rng) for scene in scenes), question)


def _sum(amount: int, rng: Random, askers: tuple[Asker, ...]) -> Iterator[Example]:
    for _ in range(amount):
        yield _example((), small_sum(rng, held_out=True))


def _example(pictures: tuple[Image.Image, ...], question: Question) -> Example:
    return Example(pictures, question.text, question.answer, question.kind)


_HELD_OUT: dict[str, Callable[[int, Random, tuple[Asker, ...]], Iterator[Example]]] = {
    "one": _one,
    "two": _two,
    "sum": _sum,
}
