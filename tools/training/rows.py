"""Questions by the row: what is shown or told, and all that is asked about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from easerve.builtin import scenes


def rephrase(text: str, rng: Random) -> str:
    """Half of the questions as people type them: a capital, no space before the mark, or no mark at all."""
    if rng.random() < 0.5:
        return text
    if rng.random() < 0.7:
        text = text[0].upper() + text[1:]
    return rng.choice((text, text[:-2] + text[-1], text[:-2]))


@dataclass
class Row:
    """A prefix (pictures, or a scene in words, or neither), and the branches that continue it: (question, answer)."""

    pictures: list[np.ndarray[Any, Any]]
    branches: list[tuple[str, str]]
    drawn: Sequence[scenes.Scene] = ()  # what the pictures show
    words: str = ""


class Rows:
    """Makes rows of training or held-out content."""

    def __init__(self, rng: Random, *, held_out: bool) -> None:
        self._rng = rng
        self._held_out = held_out

    def one(self, askers: Sequence[scenes.Asker]) -> Row:
        scene = self._scene()
        return self._row([scene], [scenes.about_one(scene, self._rng, ask) for ask in askers])

    def two(self, askers: Sequence[scenes.Asker]) -> Row:
        pair = (self._scene(), self._scene())
        return self._row(list(pair), [scenes.about_two(pair, self._rng, ask) for ask in askers])

    def told(self, askers: Sequence[scenes.Asker]) -> Row:
        """A scene in words: comparing words is soon learned, and pictures then only have to look like them."""
        scene = self._scene()
        row = self._row([], [scenes.about_one(scene, self._rng, ask) for ask in askers])
        row.words = scenes.describe(scene, "", self._rng).answer + " "
        return row

    def sums(self, branches: int) -> Row:
        return self._row([], [scenes.small_sum(self._rng, held_out=self._held_out) for _ in range(branches)])

    def longer_sums(self, branches: int) -> Row:
        return self._row([], [scenes.longer_sum(self._rng) for _ in range(branches)])

    def _scene(self) -> scenes.Scene:
        """Half of what is trained on has two colours only: a form is then not to be told by its colour."""
        few = not self._held_out and self._rng.random() < 0.5
        return scenes.random_scene(self._rng, held_out=self._held_out, colours=2 if few else len(scenes.COLOURS))

    def _row(self, drawn: Sequence[scenes.Scene], questions: Sequence[scenes.Question]) -> Row:
        rng = self._rng
        pictures = [np.asarray(scenes.draw(scene, scenes.random_size(rng), rng)) for scene in drawn]
        ask = (lambda text: text) if self._held_out else (lambda text: rephrase(text, rng))
        return Row(pictures, [(ask(question.text), question.answer) for question in questions], drawn)
