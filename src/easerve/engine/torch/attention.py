"""Paged attention for transformers' modules: one packed row of tokens, keys and values in the block pool.

Registered under `PAGED_ATTENTION` through transformers' attention interface; language parts call it with the step's
`PagedBatch` as keyword argument `paged`. Decode rows of all sequences attend in one call over their gathered blocks;
prefill chunks attend one by one, a first chunk without touching the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface

from easerve.engine.torch.kv_cache import KVCache
from easerve.models.base import PAGED_ATTENTION


@dataclass(frozen=True)
class PrefillRows:
    """A prefill chunk: its rows in the packed batch, and the pool slots of everything it attends to."""

    start: int
    end: int
    context: torch.Tensor | None  # slots of all tokens up to the chunk's end, or None for a sequence's first chunk
    mask: torch.Tensor | None  # (rows, context) bool, with `context`


@dataclass(frozen=True)
class PagedBatch:
    """What one forward needs to know. Decode rows come first in the packed batch."""

    cache: KVCache
    slots: torch.Tensor  # (tokens,) where each token's key and value go
    decode_rows: int
    decode_slots: torch.Tensor | None  # (decode_rows, longest context) slots, padded with any
    decode_mask: torch.Tensor | None  # (decode_rows, 1, 1, longest context) bool
    prefills: tuple[PrefillRows, ...]


def paged_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    paged: PagedBatch,
    scaling: float | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of a packed step, as transformers calls it.

    `query` (1, heads, tokens, head_dim), `key` and `value` (1, kv_heads, tokens, head_dim); returns
    (1, tokens, heads, head_dim) and no weights.
    """
    layer: int = module.layer_idx  # type: ignore[assignment]
    keys, values = paged.cache.keys[layer], paged.cache.values[layer]
    keys[paged.slots] = key[0].transpose(0, 1)
    values[paged.slots] = value[0].transpose(0, 1)
    parts = []
    if paged.decode_slots is not None:
        parts.append(_decode(query[0, :, : paged.decode_rows], keys, values, paged, scaling))
    for rows in paged.prefills:
        parts.append(_prefill(query, key, value, keys, values, rows, scaling))
    out = parts[0] if len(parts) == 1 else torch.cat(parts)
    return out[None], None


def _decode(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, paged: PagedBatch, scaling: float | None
) -> torch.Tensor:
    """(heads, rows, head_dim) -> (rows, heads, head_dim); the batch is the sequences, each with one query."""
    assert paged.decode_slots is not None
    out = scaled_dot_product_attention(
        query.transpose(0, 1)[:, :, None],
        keys[paged.decode_slots].transpose(1, 2),
        values[paged.decode_slots].transpose(1, 2),
        attn_mask=paged.decode_mask,
        scale=scaling,
        enable_gqa=True,
    )
    return out[:, :, 0]


def _prefill(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PrefillRows,
    scaling: float | None,
) -> torch.Tensor:
    """The chunk's rows, (rows, heads, head_dim)."""
    if rows.context is None:
        key, value = key[:, :, rows.start : rows.end], value[:, :, rows.start : rows.end]
    else:
        key, value = keys[rows.context].transpose(0, 1)[None], values[rows.context].transpose(0, 1)[None]
    out = scaled_dot_product_attention(
        query[:, :, rows.start : rows.end],
        key,
        value,
        attn_mask=rows.mask,
        is_causal=rows.mask is None,
        scale=scaling,
        enable_gqa=True,
    )
    return out[0].transpose(0, 1)


AttentionInterface.register(PAGED_ATTENTION, paged_attention)
AttentionMaskInterface.register(PAGED_ATTENTION, lambda *_, **__: None)
