"""The KV pool: fixed tensors per layer, cut into blocks that sequences borrow."""

from __future__ import annotations

import torch

from easerve.models.base import KVShape

CPU_DEFAULT_BYTES = 2**30
CUDA_FREE_SHARE = 0.85  # of what is free after loading; not yet run on a GPU


class BlockPool:
    """Which blocks are free. Pure bookkeeping."""

    def __init__(self, blocks: int) -> None:
        self.total = blocks
        self._free = list(range(blocks - 1, -1, -1))

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return self.total - len(self._free)

    def take(self, count: int) -> list[int] | None:
        """`count` blocks, all or none."""
        if count > len(self._free):
            return None
        return [self._free.pop() for _ in range(count)]

    def give_back(self, blocks: list[int]) -> None:
        self._free.extend(blocks)
        assert len(self._free) <= self.total, "a block was given back twice"


class KVCache:
    """Keys and values of all layers: (layers, slots, kv_heads, head_dim) each; slot = block * block_size + offset."""

    def __init__(self, shape: KVShape, blocks: int, block_size: int, device: torch.device) -> None:
        self.block_size = block_size
        size = (shape.layers, blocks * block_size, shape.kv_heads, shape.head_dim)
        self.keys = torch.zeros(size, dtype=shape.dtype, device=device)
        self.values = torch.zeros(size, dtype=shape.dtype, device=device)


def blocks_for(
    shape: KVShape, block_size: int, bytes_wanted: int | None, most_tokens: int, device: torch.device
) -> int:
    """How many blocks the pool gets: what was asked for, or a default that never exceeds `most_tokens` tokens."""
    block_bytes = shape.bytes_per_token * block_size
    if bytes_wanted is not None:
        return max(1, bytes_wanted // block_bytes)
    available = CPU_DEFAULT_BYTES
    if device.type == "cuda":
        available = int(torch.cuda.mem_get_info(device)[0] * CUDA_FREE_SHARE)
    return max(1, min(available // block_bytes, -(-most_tokens // block_size)))
