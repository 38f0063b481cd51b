"""Text of a wanted length without anybody's tokenizer: frequent words, each one token in nearly every vocabulary.

The built-in model's vocabulary has them all too. What a server really counted is in its `usage`, and is reported.
"""

from __future__ import annotations

from random import Random

WORDS = (
    "is", "at", "the", "top", "left", "right", "bottom", "in", "of", "picture", "red", "green", "blue", "yellow",
    "black", "circle", "square", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "many", "are",
    "there", "and", "a",
)  # fmt: skip


def text(words: int, rng: Random) -> str:
    """So many words, drawn alike."""
    return " ".join(rng.choices(WORDS, k=words))
