"""Scenes: every answer is the right one, held-out content is never trained on, and a seed says it all."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from easerve.builtin import scenes


def true_answer(question: str, scene: scenes.Scene) -> str:
    """Worked out from the words of the question, by other means than the generator's."""
    names = {shape.place: shape.name for shape in scene.shapes}
    if question.startswith("how many"):
        return scenes.NUMBERS[len(names)]
    if question.startswith("is there"):
        return "yes" if question.removeprefix("is there a ").removesuffix(" ?") in names.values() else "no"
    if question.startswith("describe"):
        return " and ".join(f"at the {place} a {names[place]}" for place in scenes.PLACES if place in names) + " ."
    place = question.removeprefix("what is at the ").removesuffix(" ?")
    return f"a {names[place]}" if place in names else "nothing"


def asked(amount: int, seed: int) -> list[tuple[scenes.Scene, scenes.Question]]:
    rng = Random(seed)
    made = []
    for index in range(amount):
        scene = scenes.random_scene(rng, held_out=True)
        made.append((scene, scenes.about_one(scene, rng, scenes.ASKERS[index % len(scenes.ASKERS)])))
    return made


def test_every_answer_is_the_right_one() -> None:
    for scene, question in asked(800, seed=1):
        assert question.answer == true_answer(question.text, scene), question


def test_yes_is_as_frequent_as_no() -> None:
    answers = Counter(question.answer for _, question in asked(4000, seed=2) if question.kind == "is there")
    assert 0.45 < answers["yes"] / answers.total() < 0.55


def test_one_who_knows_the_wrong_picture_only_is_mostly_wrong() -> None:
    """The bound on wrong pictures (40 %) leaves room above what a perfect reader of the wrong one would score."""
    pairs = asked(4000, seed=3)
    others = [scene for scene, _ in pairs[4:] + pairs[:4]]
    agree = [
        question.answer == true_answer(question.text, other) for (_, question), other in zip(pairs, others, strict=True)
    ]
    assert sum(agree) / len(agree) < 0.25


def test_training_never_meets_a_held_out_scene() -> None:
    rng = Random(4)
    trained = {scenes.random_scene(rng, held_out=False) for _ in range(5000)}
    held_out = {scenes.random_scene(rng, held_out=True) for _ in range(5000)}
    assert not trained & held_out


def test_a_held_out_sum_is_trained_on_only_the_other_way_round() -> None:
    held_out = [(a, b) for a in range(10) for b in range(10) if scenes.sum_is_held_out(a, b)]
    assert len(held_out) == 18
    assert not any(scenes.sum_is_held_out(b, a) for a, b in held_out)


@pytest.mark.parametrize("kind, pictures", [("one", 1), ("two", 2), ("sum", 0)])
def test_the_same_seed_gives_the_same_examples(kind: str, pictures: int) -> None:
    first, again, other = (scenes.held_out(kind, 12, seed=seed) for seed in (5, 5, 6))
    assert [one.question for one in first] == [one.question for one in again]
    assert [one.question for one in first] != [one.question for one in other]
    for one, two in zip(first, again, strict=True):
        assert len(one.pictures) == pictures
        assert all(np.array_equal(a, b) for a, b in zip(one.pictures, two.pictures, strict=True))
