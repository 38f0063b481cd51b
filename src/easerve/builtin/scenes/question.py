"""A question with its answer, whatever it is about."""

from __future__ import annotations

from dataclasses import dataclass

NUMBERS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
)  # fmt: skip


@dataclass(frozen=True)
class Question:
    """A question, its one right answer, and the skill it needs."""

    text: str
    answer: str
    kind: str
