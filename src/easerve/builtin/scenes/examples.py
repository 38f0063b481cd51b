"""Questions with their pictures that were never trained on, for exams, the demo and the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from PIL import Image

from easerve.builtin.scenes.asking import ASKERS, Asker, about_one, about_two
from easerve.builtin.scenes.drawing import draw, random_size
from easerve.builtin.scenes.question import Question
from easerve.builtin.scenes.scene import random_scene
from easerve.builtin.scenes.sums import small_sum


@dataclass(frozen=True)
class Example:
    """A question with the pictures it is about; no pictures for text alone."""

    pictures: tuple[Image.Image, ...]
    question: str
    answer: str
    kind: str


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
