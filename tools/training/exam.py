"""What the model can do with content that was held out."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from easerve.builtin import scenes
from training.collate import Collator
from training.losses import forward, see
from training.rows import Row, Rows


def evaluate(model: Qwen2_5_VLForConditionalGeneration, collate: Collator, amount: int) -> dict[str, float]:
    """Held-out exactness by skill."""
    model.eval()
    rows = Rows(Random("evaluation"), held_out=True)
    one = exact(model, collate, [rows.one(scenes.ASKERS) for _ in range(amount)])
    two = exact(model, collate, [rows.two(scenes.ASKERS) for _ in range(amount)])
    sums = exact(model, collate, [rows.sums(8) for _ in range(8)])
    told = exact(model, collate, [rows.told((scenes.is_there,)) for _ in range(amount)])
    model.train()
    scores = {kind: _mean(one[i::4]) for i, kind in enumerate(("count", "where", "is there", "describe"))}
    return scores | {"one": _mean(one), "two": _mean(two), "sum": _mean(sums), "told": _mean(told)}


@torch.inference_mode()
def exact(model: Qwen2_5_VLForConditionalGeneration, collate: Collator, rows: list[Row]) -> list[bool]:
    """For each branch in order: would greedy decoding give exactly the answer? (It does iff each token is the most
    likely after the right ones.)"""
    right: list[bool] = []
    for start in range(0, len(rows), 16):
        batch = collate(rows[start : start + 16])
        hits = torch.zeros_like(batch.targets, dtype=torch.bool)
        wanted = batch.targets >= 0
        hits[wanted] = forward(model, batch, see(model, batch)).argmax(-1) == batch.targets[wanted]
        for index, row in enumerate(rows[start : start + 16]):
            for number in range(1, len(row.branches) + 1):
                own = wanted[index] & (batch.branch[index] == number)
                right.append(bool(hits[index][own].all()))
    return right


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / max(1, len(values))
