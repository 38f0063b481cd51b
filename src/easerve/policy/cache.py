"""What is kept of a store bounded in bytes: least recently used goes first, what is in use never goes.

The store holds references only. Every value handed in is handed back exactly once, in a list of values to be freed, by
whichever call ends its time here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True)
class _Entry(Generic[V]):
    value: V
    nbytes: int
    resident: bool  # counted against the capacity; if not, a transient that leaves with its last pin


class ByteLRU(Generic[V]):
    """Values by key, each pinned as often as `lookup` and `insert` gave it out and `unpin` did not yet take it back.

    Resident entries never exceed `capacity_bytes`. What is in use is more recent than anything that is not, and becomes
    the most recent of those when its last pin goes. What cannot be resident (larger than the capacity, or too much of
    it is pinned) is a transient: it serves lookups like any other while it is pinned, and leaves with its last pin.
    With a capacity of 0 all entries are. Pins belong to a key, not to a value: what was discarded or replaced while
    pinned is handed back when the key has no pins left. Every call is O(1), or O(1) per value it returns.
    """

    def __init__(self, capacity_bytes: int) -> None:
        if capacity_bytes < 0:
            raise ValueError(f"a cache cannot hold {capacity_bytes} bytes")
        self.capacity_bytes = capacity_bytes
        self.bytes = 0  # of resident entries
        self.hits = 0
        self.misses = 0
        self.evictions = 0
        self._entries: dict[str, _Entry[V]] = {}
        self._pins: dict[str, int] = {}
        self._pinned_bytes = 0  # of resident entries
        self._unpinned: OrderedDict[str, None] = OrderedDict()  # resident keys, least recent first
        self._retired: dict[str, list[V]] = {}  # never served again; handed back with the key's last pin

    def __len__(self) -> int:
        """Entries that a lookup would find."""
        return len(self._entries)

    def values(self) -> Iterator[V]:
        """What a lookup would find; this pins nothing and counts as no use."""
        return (entry.value for entry in self._entries.values())

    @property
    def pinned(self) -> int:
        """Keys in use."""
        return len(self._pins)

    def lookup(self, key: str) -> V | None:
        """The value, pinned once more, or None."""
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return None
        self.hits += 1
        self._pin(key, entry)
        return entry.value

    def insert(self, key: str, value: V, nbytes: int) -> list[V]:
        """Keep a value, pinned once for the caller; it replaces one that is there. Returns values to be freed."""
        if nbytes < 0:
            raise ValueError(f"entry {key!r} cannot have {nbytes} bytes")
        freed = self.discard(key)
        resident = self.capacity_bytes > 0 and nbytes <= self.capacity_bytes - self._pinned_bytes
        if resident:
            while self.bytes + nbytes > self.capacity_bytes:
                freed.append(self._evict_oldest())
            self.bytes += nbytes
            self._unpinned[key] = None
        self._entries[key] = entry = _Entry(value, nbytes, resident)
        self._pin(key, entry)
        return freed

    def unpin(self, key: str) -> list[V]:
        """Take back one pin; KeyError if there is none. Returns values to be freed."""
        left = self._pins[key] - 1
        if left:
            self._pins[key] = left
            return []
        del self._pins[key]
        freed = self._retired.pop(key, [])
        entry = self._entries.get(key)
        if entry is not None and entry.resident:
            self._pinned_bytes -= entry.nbytes
            self._unpinned[key] = None
        elif entry is not None:
            freed.append(self._entries.pop(key).value)
        return freed

    def discard(self, key: str) -> list[V]:
        """Never serve the entry again, if there is one. Returns it to be freed, or leaves that to its last unpin."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return []
        if entry.resident:
            self.bytes -= entry.nbytes
        if key not in self._pins:
            del self._unpinned[key]
            return [entry.value]
        if entry.resident:
            self._pinned_bytes -= entry.nbytes
        self._retired.setdefault(key, []).append(entry.value)
        return []

    def evict(self) -> list[V]:
        """Discard all that nobody uses, whatever room there is. Returns it to be freed."""
        return [self._evict_oldest() for _ in range(len(self._unpinned))]

    def _pin(self, key: str, entry: _Entry[V]) -> None:
        self._pins[key] = self._pins.get(key, 0) + 1
        if key in self._unpinned:
            del self._unpinned[key]
            self._pinned_bytes += entry.nbytes

    def _evict_oldest(self) -> V:
        key, _ = self._unpinned.popitem(last=False)
        entry = self._entries.pop(key)
        self.bytes -= entry.nbytes
        self.evictions += 1
        return entry.value
