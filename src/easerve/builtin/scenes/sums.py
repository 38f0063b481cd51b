"""Small sums in words."""

from __future__ import annotations

from random import Random

from easerve.builtin.scenes.question import NUMBERS, Question


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
