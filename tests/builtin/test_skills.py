"""What the built-in model can do, on scenes it was never trained on; and that a wrong picture shows."""

from __future__ import annotations

from dataclasses import replace

from easerve.builtin import scenes
from easerve.builtin.exam import Candidate, shares_right, with_wrong_pictures


def test_one_picture(candidate: Candidate) -> None:
    shares = shares_right(candidate, scenes.held_out("one", 400, 1))
    assert shares["all"] >= 0.97, shares


def test_two_pictures(candidate: Candidate) -> None:
    shares = shares_right(candidate, scenes.held_out("two", 300, 1))
    assert shares["all"] >= 0.95, shares


def test_yes_and_no(candidate: Candidate) -> None:
    shares = shares_right(candidate, scenes.held_out("one", 200, 1, (scenes.is_there,)))
    assert shares["all"] >= 0.95, shares


def test_sums_in_words(candidate: Candidate) -> None:
    assert shares_right(candidate, scenes.held_out("sum", 150, seed=1))["all"] >= 0.97


def test_a_wrong_picture_changes_the_answer(candidate: Candidate) -> None:
    shares = shares_right(candidate, with_wrong_pictures(scenes.held_out("one", 300, seed=2)))
    assert shares["all"] < 0.4, shares


def test_questions_as_people_type_them(candidate: Candidate) -> None:
    examples = scenes.held_out("one", 99, 3)
    typed = [replace(one, question=one.question[0].upper() + one.question[1:].replace(" ?", "?")) for one in examples]
    shares = shares_right(candidate, typed)
    assert shares["all"] >= 0.93, shares
