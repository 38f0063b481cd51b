"""The blocks of a KV pool, lent to sequences."""

from __future__ import annotations


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
