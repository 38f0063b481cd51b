"""The KV pool: fixed tensors per layer, cut into blocks that sequences borrow. Sized at start, it never grows."""

from __future__ import annotations

import torch

from easerve.engine.torch.options import EngineOptions
from easerve.models.base import KVShape

CPU_DEFAULT_BYTES = 2**30  # a server's share of a machine that does other things too
CUDA_FREE_SHARE = 0.85  # of what is free after loading; the rest is for activations. Not yet run on a GPU.


class KVCache:
    """Keys and values per layer, (slots, kv_heads, head_dim) each; slot = block * block_size + offset."""

    def __init__(self, shape: KVShape, blocks: int, block_size: int, device: torch.device) -> None:
        self.block_size = block_size
        size = (blocks * block_size, shape.kv_heads, shape.head_dim)
        self.keys = [torch.zeros(size, dtype=shape.dtype, device=device) for _ in range(shape.layers)]
        self.values = [torch.zeros(size, dtype=shape.dtype, device=device) for _ in range(shape.layers)]

    def slots(self, blocks: list[int], start: int, end: int) -> list[int]:
        """Where tokens `start` to `end` of a sequence with these blocks lie."""
        size = self.block_size
        return [blocks[index // size] * size + index % size for index in range(start, end)]

    def read(self, slots: list[int]) -> torch.Tensor:
        """A copy of what lies there: (layers, 2, slots, kv_heads, head_dim), contiguous, on the pool's device."""
        pool = self.keys[0]
        index = torch.tensor(slots, device=pool.device)
        copy = pool.new_empty((len(self.keys), 2, len(slots), *pool.shape[1:]))
        for layer, kept in enumerate(zip(self.keys, self.values, strict=True)):
            for half, tensor in enumerate(kept):
                torch.index_select(tensor, 0, index, out=copy[layer, half])
        return copy

    def write(self, slots: list[int], keys_values: torch.Tensor) -> None:
        """The reverse of `read`; `keys_values` may lie on any device."""
        index = torch.tensor(slots, device=self.keys[0].device)
        for layer, kept in enumerate(zip(self.keys, self.values, strict=True)):
            for half, tensor in enumerate(kept):
                tensor.index_copy_(0, index, keys_values[layer, half].to(tensor.device))


def blocks_for(shape: KVShape, options: EngineOptions, context: int, device: torch.device) -> int:
    """How many blocks the pool gets: what was asked for, or else enough for `max_sequences` of `context` tokens each,
    as far as memory allows: `CPU_DEFAULT_BYTES` on a CPU, `CUDA_FREE_SHARE` of what is free on a CUDA device."""
    block_bytes = shape.bytes_per_token * options.block_size
    if options.kv_cache_tokens is not None:
        return max(1, options.kv_cache_tokens // options.block_size)
    if options.kv_cache_bytes is not None:
        return max(1, options.kv_cache_bytes // block_bytes)
    available = CPU_DEFAULT_BYTES
    if device.type == "cuda":
        available = int(torch.cuda.mem_get_info(device)[0] * CUDA_FREE_SHARE)
    most = -(-context * options.max_sequences // options.block_size)
    return max(1, min(available // block_bytes, most))
