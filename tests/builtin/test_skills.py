"""What the built-in model can do, on scenes it was never trained on; and that a wrong picture shows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from easerve.builtin import scenes

from .conftest import Answer


def share_right(answer: Answer, examples: list[scenes.Example]) -> tuple[float, dict[str, float]]:
    """Exact answers: of all, and by kind of question."""
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for example, said in zip(examples, answer(examples), strict=True):
        by_kind[example.kind].append(said == example.answer)
    every = [right for rights in by_kind.values() for right in rights]
    return sum(every) / len(every), {kind: sum(rights) / len(rights) for kind, rights in by_kind.items()}


def test_one_picture_with_yes_and_no_questions_among_them(answer: Answer) -> None:
    right, by_kind = share_right(answer, scenes.held_out("one", 400, seed=1))
    assert right >= 0.97, by_kind
    assert min(by_kind.values()) >= 0.9, by_kind


def test_two_pictures(answer: Answer) -> None:
    right, by_kind = share_right(answer, scenes.held_out("two", 300, seed=1))
    assert right >= 0.95, by_kind


def test_sums_in_words(answer: Answer) -> None:
    right, _ = share_right(answer, scenes.held_out("sum", 150, seed=1))
    assert right >= 0.97


def test_a_wrong_picture_changes_the_answer(answer: Answer) -> None:
    examples = scenes.held_out("one", 300, seed=2)
    swapped = [
        replace(one, pictures=other.pictures) for one, other in zip(examples, examples[4:] + examples[:4], strict=True)
    ]
    right, by_kind = share_right(answer, swapped)
    assert right < 0.4, by_kind


def test_questions_as_people_type_them(answer: Answer) -> None:
    examples = scenes.held_out("one", 100, seed=3)
    typed = [replace(one, question=one.question[0].upper() + one.question[1:].replace(" ?", "?")) for one in examples]
    right, by_kind = share_right(answer, typed)
    assert right >= 0.93, by_kind
