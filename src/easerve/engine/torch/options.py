"""Sizes and limits of the torch engine. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EngineOptions:
    """All sizes are fixed at start; nothing grows later."""

    kv_cache_bytes: int | None = None  # None: enough for the longest sequences on a CPU, what is free on CUDA
    block_size: int = 16  # tokens in one KV block
    max_batched_tokens: int = 2048  # tokens in one step
    max_sequences: int = 64  # sequences in one step
    max_model_len: int | None = None  # None: the model's own
