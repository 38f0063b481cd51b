"""Which of it is learnt when: the three stages of a run."""

from __future__ import annotations

import argparse
from random import Random

import torch
from tokenizers import Tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration

from easerve.builtin import scenes
from training.cells import CellNames
from training.collate import Collator
from training.losses import answer_loss, cell_loss, see
from training.rows import Rows


def stage_of(step: int, arguments: argparse.Namespace) -> str:
    """First words alone, then cells named by words, then everything together."""
    if step < arguments.words_first:
        return "words"
    return "cells" if step < arguments.words_first + arguments.cells_first else "together"


class Lessons:
    """What a step is about, and how wrong the model is at it."""

    def __init__(self, tokenizer: Tokenizer, arguments: argparse.Namespace) -> None:
        self.collate = Collator(tokenizer)
        self._names = CellNames(tokenizer)
        self._arguments = arguments

    def loss(self, model: Qwen2_5_VLForConditionalGeneration, step: int) -> torch.Tensor:
        rows, stage = Rows(Random(f"training {step}"), held_out=False), stage_of(step, self._arguments)
        if stage == "words":
            return self._in_words(model, rows, told=12, weight=1.0)
        loss = self._in_pictures(model, rows, answered=stage == "together")
        if stage == "cells":
            return loss
        return loss + self._in_words(model, rows, told=self._arguments.told, weight=0.3)

    def _in_pictures(self, model: Qwen2_5_VLForConditionalGeneration, rows: Rows, *, answered: bool) -> torch.Tensor:
        pictured = [rows.one(scenes.TRAINED) for _ in range(self._arguments.singles)]
        pictured += [rows.two((*scenes.TRAINED, scenes.is_there)) for _ in range(self._arguments.pairs)]
        batch = self.collate(pictured)
        cells = see(model, batch)
        assert cells is not None and batch.grids is not None
        targets = self._names.targets([scene for row in pictured for scene in row.drawn], batch.grids)
        loss = cell_loss(model, cells, targets)
        return loss + answer_loss(model, batch, cells) if answered else loss

    def _in_words(
        self, model: Qwen2_5_VLForConditionalGeneration, rows: Rows, *, told: int, weight: float
    ) -> torch.Tensor:
        words = self.collate([rows.told(scenes.TRAINED[2:]) for _ in range(told)])
        sums = self.collate([rows.sums(8), rows.longer_sums(8), rows.longer_sums(8)])
        of_words, of_sums = answer_loss(model, words, None), answer_loss(model, sums, None)
        return weight * of_words + float(self._arguments.sums) * of_sums
