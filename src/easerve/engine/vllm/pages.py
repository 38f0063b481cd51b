"""vLLM's KV pool by tokens: read out as, and written from, what a `KVState` holds.

How keys and values lie in a block is each attention kernel's own business (on a CPU, keys lie across, and tiles of them
are interleaved where there is AMX). So numbers are written through the kernel's own update once, and where they turn up
says how to read. Derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from easerve.errors import StartupError
from easerve.models.base import KVShape

_BASE = 128  # digits that every float format holds exactly
_SCRATCH = 0  # the block that vLLM never hands out


class Pages:
    """`layers` are vLLM's attention layers in the model's order, their caches (blocks, ...) each."""

    def __init__(self, layers: Sequence[Any], shape: KVShape, block_size: int) -> None:
        self._layers = layers
        self._shape = shape
        self._block_size = block_size
        caches = [layer.kv_cache for layer in layers]
        if len(caches) != shape.layers or {cache.dtype for cache in caches} != {shape.dtype}:
            raise StartupError(
                f"vLLM keeps keys and values of {len(caches)} layers in {caches[0].dtype}; to hand them over, it must "
                f"be {shape.layers} in {shape.dtype}. Leave out --engine-args that change the KV cache."
            )
        self._places = self._find_places()

    def read(self, blocks: Sequence[int], tokens: int) -> torch.Tensor:
        """A copy of the first tokens of a sequence with these blocks: (layers, 2, tokens, kv_heads, head_dim)."""
        index = torch.tensor(blocks, device=self._places.device)
        return torch.stack([self._read(layer.kv_cache, index)[:, :tokens] for layer in self._layers])

    def write(self, blocks: Sequence[int], start: int, keys_values: torch.Tensor) -> None:
        """The reverse, from token `start` on."""
        device, end = self._places.device, keys_values.shape[2]
        slots = torch.tensor(
            [blocks[at // self._block_size] * self._block_size + at % self._block_size for at in range(start, end)],
            device=device,
        )
        for layer, (keys, values) in zip(self._layers, keys_values[:, :, start:].to(device), strict=True):
            _update(layer, keys.contiguous(), values.contiguous(), slots)

    def _read(self, cache: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        """(2, tokens, kv_heads, head_dim) of whole blocks."""
        flat = cache[index].flatten(1)[:, self._places]
        one = flat.view(len(index), 2, self._block_size, self._shape.kv_heads, self._shape.head_dim)
        return one.transpose(0, 1).flatten(1, 2)

    def _find_places(self) -> torch.Tensor:
        """(2 * block_size * kv_heads * head_dim,): where in a block, laid flat, each number of a key or value is."""
        layer = self._layers[0]
        cache = layer.kv_cache
        size = (2, self._block_size, self._shape.kv_heads, self._shape.head_dim)
        wanted = torch.arange(torch.Size(size).numel(), device=cache.device)
        slots = torch.arange(self._block_size, device=cache.device) + _SCRATCH * self._block_size
        found, digit = torch.zeros_like(wanted), 1
        while digit <= wanted[-1]:
            keys, values = (wanted // digit % _BASE).to(cache.dtype).view(size)
            _update(layer, keys, values, slots)
            found += cache[_SCRATCH].flatten().long() * digit
            digit *= _BASE
        cache[_SCRATCH].zero_()
        order, places = found.sort()
        if not torch.equal(order, wanted):
            raise StartupError("vLLM's attention kernel keeps keys and values in a form that cannot be handed over.")
        return places


def _update(layer: Any, keys: torch.Tensor, values: torch.Tensor, slots: torch.Tensor) -> None:
    layer.impl.do_kv_cache_update(layer, keys, values, layer.kv_cache, slots)
