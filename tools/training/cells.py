"""What each cell of a picture should look like to the language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from tokenizers import Tokenizer

from easerve.builtin import scenes
from training.shape import MERGE
from training.tokenizer import VOCABULARY


class CellNames:
    """What each cell of a picture is called: the words of the shape in its corner, or "nothing", and of the corner.

    A cell is a merged patch, the picture's piece that becomes one embedding. Trained to be close to its words, an
    embedding means to the language model what the words mean.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def targets(self, drawn: Sequence[scenes.Scene], grids: torch.Tensor) -> torch.Tensor:
        """(cells, vocabulary): a distribution over words for each cell of all pictures, in the encoder's order."""
        cells = [
            self._words(scene.at(place), place)
            for scene, (_, tall, wide) in zip(drawn, grids.tolist(), strict=True)
            for place in _cell_places(tall // MERGE, wide // MERGE)
        ]
        targets = torch.zeros(len(cells), VOCABULARY)
        for row, words in zip(targets, cells, strict=True):
            row[words] = 1 / len(words)
        return targets

    def _words(self, shape: scenes.Shape | None, place: str) -> list[int]:
        text = f" {shape.name} {place}" if shape else f" nothing {place}"
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def _cell_places(rows: int, columns: int) -> Iterator[str]:
    for row in range(rows):
        for column in range(columns):
            vertical = "top" if 2 * row + 1 <= rows else "bottom"
            yield f"{vertical} {'left' if 2 * column + 1 <= columns else 'right'}"
