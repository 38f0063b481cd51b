"""Questions about scenes. An asker makes one about a scene, in words that say `where` the picture is among several."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from easerve.builtin.scenes.question import NUMBERS, Question
from easerve.builtin.scenes.scene import COLOURS, FORMS, PLACES, Scene, Shape

ORDINALS = ("first", "second")


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
