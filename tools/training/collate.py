"""Rows laid out as tensors: tokens, positions, and who may attend to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from training.rows import Row
from training.shape import MERGE, make_processor
from training.tokenizer import SPECIAL, special_id


@dataclass
class Batch:
    """Rows as tensors. `branch` numbers each token's branch (0: prefix, -1: padding), (rows, length)."""

    ids: torch.Tensor
    branch: torch.Tensor
    positions: torch.Tensor  # (3, rows, length)
    targets: torch.Tensor  # next token where it is part of an answer, else -100
    weights: torch.Tensor  # of the targets in the loss
    pixels: torch.Tensor | None
    grids: torch.Tensor | None


@dataclass
class _Layout:
    """One row, token by token."""

    ids: list[int]
    branch: list[int]
    positions: list[tuple[int, int, int]]
    targets: list[int]
    weights: list[float]


class Collator:
    """Tokens, positions and masks for rows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._processor = make_processor()
        self._id: dict[str, int] = {name: special_id(tokenizer, name) for name in SPECIAL}

    def __call__(self, rows: Sequence[Row]) -> Batch:
        pictures = [picture for row in rows for picture in row.pictures]
        pixels = grids = None
        if pictures:
            prepared = self._processor(images=pictures, return_tensors="pt")
            pixels, grids = prepared["pixel_values"], prepared["image_grid_thw"]
        grid = iter([] if grids is None else grids.tolist())
        layouts = [self._layout(row, [next(grid) for _ in row.pictures]) for row in rows]
        shape = (len(rows), max(len(layout.ids) for layout in layouts))
        batch = Batch(
            torch.full(shape, self._id["<|endoftext|>"]),
            torch.full(shape, -1),
            torch.zeros((3, *shape), dtype=torch.long),
            torch.full(shape, -100),
            torch.zeros(shape),
            pixels,
            grids,
        )
        for index, layout in enumerate(layouts):
            own = slice(len(layout.ids))
            batch.ids[index, own] = torch.tensor(layout.ids)
            batch.branch[index, own] = torch.tensor(layout.branch)
            batch.positions[:, index, own] = torch.tensor(layout.positions).T
            batch.targets[index, own] = torch.tensor(layout.targets)
            batch.weights[index, own] = torch.tensor(layout.weights)
        return batch

    def _layout(self, row: Row, grids: list[list[int]]) -> _Layout:
        ids, positions, start = self._prefix(grids, row.words)
        layout = _Layout(ids, [0] * len(ids), positions, [-100] * len(ids), [0.0] * len(ids))
        for number, (question, answer) in enumerate(row.branches, 1):
            # The question's first token continues the prefix, as in a whole prompt.
            asked = [*self._text(question), self._id["<|im_end|>"], *self._text("\n")]
            asked += [self._id["<|im_start|>"], *self._text("assistant\n")]
            answered = [*self._text(answer), self._id["<|im_end|>"]]
            tokens = asked + answered
            layout.ids += tokens[:-1]
            layout.branch += [number] * (len(tokens) - 1)
            layout.positions += [(start + i,) * 3 for i in range(len(tokens) - 1)]
            layout.targets += [-100] * (len(asked) - 1) + answered
            # A long answer counts more than a short one, but less than by its length: yes and no would drown.
            layout.weights += [0.0] * (len(asked) - 1) + [len(answered) ** -0.75] * len(answered)
        return layout

    def _prefix(self, grids: list[list[int]], words: str) -> tuple[list[int], list[tuple[int, int, int]], int]:
        """Its tokens, their positions, and the position at which every branch starts."""
        ids = [self._id["<|im_start|>"], *self._text("user\n")]
        positions = [(i, i, i) for i in range(len(ids))]
        at = len(ids)
        start, pad, end = (self._id[name] for name in ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>"))
        for _, tall, wide in grids:
            rows, columns = tall // MERGE, wide // MERGE
            ids += [start, *[pad] * (rows * columns), end]
            positions.append((at, at, at))
            positions += [(at + 1, at + 1 + r, at + 1 + c) for r in range(rows) for c in range(columns)]
            at += 1 + max(rows, columns)
            positions.append((at, at, at))
            at += 1
        told = self._text(words)
        positions += [(at + i,) * 3 for i in range(len(told))]
        return ids + told, positions, at + len(told)

    def _text(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids
