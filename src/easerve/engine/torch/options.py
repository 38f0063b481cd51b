"""Sizes and limits of the torch engine. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineOptions:
    """All sizes are fixed at start; nothing grows later."""

    kv_cache_bytes: int | None = None  # None: enough for the longest sequences, up to what kv_cache.py allows
    kv_cache_tokens: int | None = None  # the same in tokens; comes before bytes
    block_size: int = 16  # tokens in one KV block
    prefix_cache: bool = False  # sequences with the same beginning share its blocks
    max_batched_tokens: int = 2048  # tokens in one step
    max_sequences: int = 64  # sequences in one step
    max_model_len: int | None = None  # prompt and output together; None: the model's own
