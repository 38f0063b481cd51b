"""Paged attention against plain attention in double precision: blocks in any order, chunks, several sequences, and the
scale that the module names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from easerve.engine.base import NewSequence
from easerve.engine.scheduling import Chunk
from easerve.engine.torch import batch
from easerve.engine.torch.attention import paged_attention
from easerve.engine.torch.batch import assemble, in_packed_order
from easerve.engine.torch.kv_cache import KVCache
from easerve.engine.torch.sequence import Sequence
from easerve.models.base import KVShape
from easerve.request import SamplingParams

HEADS, KV_HEADS, WIDTH, BLOCK, SCALE = 6, 2, 8, 4, 0.7
CPU = torch.device("cpu")
PART: Any = SimpleNamespace(device=CPU, embed=lambda ids: torch.zeros(len(ids), 1))


def sequence(length: int, blocks: list[int]) -> Sequence:
    new = NewSequence("a", [0] * length, SamplingParams())
    made = Sequence.of(new, torch.zeros(1, length, dtype=torch.long), length)
    made.blocks = blocks
    return made


def plain(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """(heads, n, d) and (kv_heads, n, d) of one whole sequence -> (n, heads, d)."""
    query, key, value = query.double(), key.double(), value.double()
    key, value = (one.repeat_interleave(HEADS // KV_HEADS, 0) for one in (key, value))
    scores = (query @ key.transpose(1, 2) * SCALE).masked_fill(
        ~torch.ones(query.shape[1], key.shape[1]).tril().bool(), -1e300
    )
    return (scores.softmax(-1) @ value).transpose(0, 1)


@pytest.mark.parametrize("span", [4, 64])
@pytest.mark.parametrize("steps", [[[13, 9, 1]], [[5, 2, 1], [8, 7, 0]], [[12, 1, 0], [1, 7, 1], [0, 1, 0]]])
def test_equals_plain_attention(steps: list[list[int]], span: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`steps`: how many tokens of each sequence a step computes; the pool begins full of what is no number."""
    monkeypatch.setattr(batch, "CPU_SPAN", span)
    torch.manual_seed(0)
    cache = KVCache(KVShape(1, KV_HEADS, WIDTH, torch.float32), 12, BLOCK, CPU)
    cache.keys[0].fill_(float("nan"))
    cache.values[0].fill_(float("nan"))
    sequences = [sequence(13, [7, 0, 11, 3]), sequence(9, [5, 2, 8]), sequence(1, [9])]
    query, key, value = (
        [torch.randn(heads, len(one.tokens), WIDTH) for one in sequences] for heads in (HEADS, KV_HEADS, KV_HEADS)
    )
    found: list[list[torch.Tensor]] = [[] for _ in sequences]
    for counts in steps:
        chunks = in_packed_order([Chunk(one, count) for one, count in zip(sequences, counts, strict=True) if count])
        which = [sequences.index(chunk.sequence) for chunk in chunks]
        packed = [
            torch.cat([each[n][:, chunk.start : chunk.end] for n, chunk in zip(which, chunks, strict=True)], 1)[None]
            for each in (query, key, value)
        ]
        module: Any = SimpleNamespace(layer_idx=0)
        paged = assemble(chunks, PART, cache).paged
        out, _ = paged_attention(module, *packed, None, paged=paged, scaling=SCALE)
        for n, rows in zip(which, out[0].split([chunk.count for chunk in chunks]), strict=True):
            found[n].append(rows)
        for chunk in chunks:
            chunk.sequence.computed = chunk.end
    for n, parts in enumerate(found):
        torch.testing.assert_close(torch.cat(parts).double(), plain(query[n], key[n], value[n]), atol=1e-5, rtol=1e-5)
