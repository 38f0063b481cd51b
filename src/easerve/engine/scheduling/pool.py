"""The blocks of a KV pool, lent to sequences. Pure bookkeeping."""

from __future__ import annotations

from collections.abc import Sequence


class BlockPool:
    """Which blocks are free, and which of those that were filled can be had again by their key.

    A block with a key may be lent to several sequences at once; none of them writes to it any more. When nobody has
    it, it counts as free and is found by its key until it is lent for something else: blocks without a key go first,
    then those that nobody has had for the longest time.
    """

    def __init__(self, blocks: int) -> None:
        self.total = blocks
        self._blank = list(range(blocks - 1, -1, -1))
        self._idle: dict[int, None] = {}  # free and with a key, the longest idle first
        self._holders = [0] * blocks
        self._keys: dict[int, bytes] = {}
        self._blocks: dict[bytes, int] = {}  # the reverse

    @property
    def free(self) -> int:
        return len(self._blank) + len(self._idle)

    @property
    def used(self) -> int:
        return self.total - self.free

    def take(self, count: int) -> list[int] | None:
        """`count` blocks to write to, all or none."""
        if count > self.free:
            return None
        return [self._take() for _ in range(count)]

    def _take(self) -> int:
        if self._blank:
            block = self._blank.pop()
        else:
            block = next(iter(self._idle))
            del self._idle[block]
            self._forget(block)
        self._holders[block] = 1
        return block

    def share(self, keys: Sequence[bytes]) -> list[int]:
        """The blocks of the first keys, up to the first that is not here, for reading."""
        found: list[int] = []
        for key in keys:
            if (block := self._blocks.get(key)) is None:
                break
            self._idle.pop(block, None)
            self._holders[block] += 1
            found.append(block)
        return found

    def name(self, block: int, key: bytes) -> None:
        """A lent block is full and holds what `key` says; of two blocks that hold the same, the first is found."""
        if key not in self._blocks and block not in self._keys:
            self._keys[block], self._blocks[key] = key, block

    def give_back(self, blocks: Sequence[int]) -> None:
        """A sequence's blocks in their order; the last goes first when room is needed, the rest serves without it."""
        for block in reversed(blocks):
            assert self._holders[block] > 0, "a block was given back twice"
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._free(block)

    def disown(self, blocks: Sequence[int]) -> None:
        """What these lent blocks hold is not to be found any more."""
        for block in blocks:
            self._forget(block)

    def _free(self, block: int) -> None:
        if block in self._keys:
            self._idle[block] = None
        else:
            self._blank.append(block)

    def _forget(self, block: int) -> None:
        if (key := self._keys.pop(block, None)) is not None:
            del self._blocks[key]
