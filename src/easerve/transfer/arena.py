"""Memory in few large slabs, handed out in pieces: registering memory for remote reads costs far more than using it.

A piece is a numpy array and goes back when the last reference to it ends, a `memoryview` of it included.
"""

from __future__ import annotations

import bisect
import threading
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

SLAB_BYTES = 32 * 2**20
_ALIGNMENT = 64  # a cache line, and a multiple of any dtype's size


@dataclass
class Space:
    """Which parts of `size` bytes are free: first fit, and neighbours are joined again."""

    size: int
    _free: list[tuple[int, int]] = field(init=False)  # (offset, length), ascending, never touching

    def __post_init__(self) -> None:
        self._free = [(0, self.size)]

    def take(self, length: int) -> int | None:
        """The offset of `length` > 0 free bytes, or None when there is no such gap."""
        for index, (offset, gap) in enumerate(self._free):
            if gap >= length:
                self._free[index : index + 1] = [(offset + length, gap - length)] if gap > length else []
                return offset
        return None

    def give(self, offset: int, length: int) -> None:
        index = bisect.bisect(self._free, (offset, 0))
        start, end = offset, offset + length
        first, last = index, index
        if index and sum(self._free[index - 1]) == start:
            first, start = index - 1, self._free[index - 1][0]
        if index < len(self._free) and self._free[index][0] == end:
            last, end = index + 1, sum(self._free[index])
        self._free[first:last] = [(start, end - start)]


class Arena:
    """Pieces of slabs; `register` is called once with each new slab. Slabs stay until the arena ends."""

    def __init__(self, register: Callable[[Bytes], None]) -> None:
        self._register = register
        self._lock = threading.Lock()
        self._slabs: list[tuple[Bytes, Space]] = []
        self._returned: deque[tuple[Space, int, int]] = deque()

    def take(self, nbytes: int) -> tuple[int, Bytes]:
        """The slab's number and `nbytes` > 0 bytes of it."""
        length = -(-nbytes // _ALIGNMENT) * _ALIGNMENT
        with self._lock:
            self._take_back()
            number, offset = self._find(length)
        slab, space = self._slabs[number]
        piece = slab[offset : offset + nbytes]
        # The end of a piece may come in the middle of anything, this lock held included: it is only noted then.
        weakref.finalize(piece, self._returned.append, (space, offset, length)).atexit = False
        return number, piece

    def _take_back(self) -> None:
        while self._returned:
            space, offset, length = self._returned.popleft()
            space.give(offset, length)

    def _find(self, length: int) -> tuple[int, int]:
        for number, (_, space) in enumerate(self._slabs):
            if (offset := space.take(length)) is not None:
                return number, offset
        slab = np.empty(max(SLAB_BYTES, length), np.uint8)
        self._register(slab)
        space = Space(slab.nbytes)
        self._slabs.append((slab, space))
        space.take(length)
        return len(self._slabs) - 1, 0
