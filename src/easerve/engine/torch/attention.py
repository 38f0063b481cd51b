"""Paged attention for transformers' modules: one packed row of tokens, keys and values in the block pool.

Registered under `PAGED_ATTENTION` through transformers' attention interface; language parts call it with the step's
`PagedBatch` as keyword argument `paged`. Decode rows of all sequences attend in one call over what is gathered of the
pool; prefill chunks attend one by one, a first chunk without touching the pool (and on a CPU a span of rows at a time:
its kernel computes what a causal mask hides).
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
class DecodeRows:
    """The first `count` rows of the packed batch: one new token each, of sequences that are in the pool."""

    count: int
    slots: torch.Tensor  # (count * longest,) of each sequence's tokens, the shorter padded with their own newest
    mask: torch.Tensor | None  # (count, 1, 1, longest) bool, False on padding; None without padding


@dataclass(frozen=True)
class PrefillRows:
    """Rows `start` to `end` of the packed batch, of a prefill chunk, and what they attend to."""

    start: int
    end: int
    first: int  # row of the chunk that they attend to from, where there are no slots
    slots: torch.Tensor | None  # (context,) of all tokens up to the last row's; None for a sequence's first chunk
    mask: torch.Tensor | None  # (rows, context) bool; None: from the sequence's first token on, plainly causal


@dataclass(frozen=True)
class PagedBatch:
    """What one forward needs to know."""

    cache: KVCache
    slots: torch.Tensor  # (tokens,) where each token's key and value go
    decode: DecodeRows | None
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
    keys.index_copy_(0, paged.slots, key[0].transpose(0, 1))
    values.index_copy_(0, paged.slots, value[0].transpose(0, 1))
    parts = []
    if paged.decode is not None:
        parts.append(_decode(query[0, :, : paged.decode.count], keys, values, paged.decode, scaling))
    for rows in paged.prefills:
        if rows.slots is None:
            own = slice(rows.first, rows.end)
            context = key[:, :, own], value[:, :, own]
        else:
            context = _gather(keys, rows.slots, 1), _gather(values, rows.slots, 1)
        parts.append(_prefill(query[:, :, rows.start : rows.end], *context, rows.mask, scaling))
    out = parts[0] if len(parts) == 1 else torch.cat(parts)
    return out[None], None


def _gather(pool: torch.Tensor, slots: torch.Tensor, sequences: int) -> torch.Tensor:
    """(sequences, kv_heads, context, head_dim) of `slots` (sequences * context,)."""
    return pool.index_select(0, slots).view(sequences, -1, *pool.shape[1:]).transpose(1, 2)


def _decode(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: DecodeRows, scaling: float | None
) -> torch.Tensor:
    """`query` (heads, count, head_dim) -> (count, heads, head_dim).

    The heads that share a key head stand where a prompt's tokens would: keys are read once for all of them.
    """
    heads, count, head_dim = query.shape
    out = scaled_dot_product_attention(
        query.transpose(0, 1).reshape(count, keys.shape[1], -1, head_dim),
        _gather(keys, rows.slots, count),
        _gather(values, rows.slots, count),
        attn_mask=rows.mask,
        scale=scaling,
    )
    return out.reshape(count, heads, head_dim)


def _prefill(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, scaling: float | None
) -> torch.Tensor:
    """The chunk's rows, (rows, heads, head_dim); without a mask, plainly causal."""
    out = scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, scale=scaling, enable_gqa=True
    )
    return out[0].transpose(0, 1)


AttentionInterface.register(PAGED_ATTENTION, paged_attention)
AttentionMaskInterface.register(PAGED_ATTENTION, lambda *_, **__: None)
