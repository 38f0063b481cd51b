"""The byte-bounded LRU against a model: bound, order, pins, and every value handed back once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from easerve.policy.cache import ByteLRU

keys = st.sampled_from("abcdef")


class CacheMachine(RuleBasedStateMachine):
    """Values are numbers in order of insertion. The model: what a lookup must find, and who is in use."""

    @initialize(capacity=st.integers(0, 9))
    def start(self, capacity: int) -> None:
        self.cache: ByteLRU[int] = ByteLRU(capacity)
        self.sizes: list[int] = []  # by value
        self.freed: set[int] = set()
        self.current: dict[str, int] = {}  # what lookups find, least recently used first
        self.retired: dict[str, set[int]] = {}
        self.transient: set[int] = set()
        self.pins: Counter[str] = Counter()

    def _free(self, values: list[int]) -> None:
        assert len(set(values)) == len(values) and not self.freed & set(values)
        self.freed |= set(values)

    def _used(self, key: str) -> None:
        self.current[key] = self.current.pop(key)

    def _resident_bytes(self, *, in_use: bool) -> int:
        there = [value for key, value in self.current.items() if (self.pins[key] > 0) == in_use]
        return sum(self.sizes[value] for value in there if value not in self.transient)

    @rule(key=keys)
    def lookup(self, key: str) -> None:
        assert self.cache.lookup(key) == self.current.get(key)
        if key in self.current:
            self.pins[key] += 1
            self._used(key)

    @rule(key=keys, nbytes=st.integers(0, 11))
    def insert(self, key: str, nbytes: int) -> None:
        value = len(self.sizes)
        self.sizes.append(nbytes)
        expected = self._discard(key)
        room = self.cache.capacity_bytes - self._resident_bytes(in_use=True)
        if self.cache.capacity_bytes == 0 or nbytes > room:
            self.transient.add(value)
        else:
            for oldest in [key for key in self.current if not self.pins[key]]:
                if nbytes + self._resident_bytes(in_use=False) <= room:
                    break
                expected.append(self.current.pop(oldest))
        freed = self.cache.insert(key, value, nbytes)
        assert freed == expected
        self._free(freed)
        self.current[key] = value
        self.pins[key] += 1

    @precondition(lambda self: self.pins.total())
    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        self._unpin(data.draw(st.sampled_from(sorted(self.pins.elements()))))

    def _unpin(self, key: str) -> None:
        freed = self.cache.unpin(key)
        self.pins[key] -= 1
        expected = set()
        if not self.pins[key]:
            expected = self.retired.pop(key, set())
            if self.current.get(key) in self.transient:
                expected.add(self.current.pop(key))
            elif key in self.current:
                self._used(key)
        assert set(freed) == expected
        self._free(freed)

    @rule(key=keys)
    def discard(self, key: str) -> None:
        expected = self._discard(key)
        freed = self.cache.discard(key)
        assert freed == expected
        self._free(freed)

    def _discard(self, key: str) -> list[int]:
        if key not in self.current:
            return []
        value = self.current.pop(key)
        if not self.pins[key]:
            return [value]
        self.retired.setdefault(key, set()).add(value)
        return []

    @rule()
    def evict(self) -> None:
        expected = [self.current.pop(key) for key in list(self.current) if not self.pins[key]]
        freed = self.cache.evict()
        assert freed == expected
        self._free(freed)

    @invariant()
    def within_capacity_and_counted(self) -> None:
        resident = self._resident_bytes(in_use=True) + self._resident_bytes(in_use=False)
        assert self.cache.bytes == resident <= self.cache.capacity_bytes
        assert len(self.cache) == len(self.current)
        assert self.cache.pinned == sum(count > 0 for count in self.pins.values())

    def teardown(self) -> None:
        for key in list(self.pins.elements()):
            self._unpin(key)
        self._free(self.cache.evict())
        assert self.freed == set(range(len(self.sizes)))
        assert self.cache.bytes == self.cache.pinned == len(self.cache) == 0


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


def test_counters() -> None:
    cache: ByteLRU[str] = ByteLRU(10)
    assert cache.lookup("a") is None
    cache.insert("a", "A", 6)
    assert cache.lookup("a") == "A"
    assert (cache.unpin("a"), cache.unpin("a")) == ([], [])
    assert cache.insert("b", "B", 6) == ["A"]
    assert (cache.hits, cache.misses, cache.evictions) == (1, 1, 1)


def test_a_key_that_is_there_gets_the_newcomer_and_the_old_one_stays_while_it_is_in_use() -> None:
    cache: ByteLRU[str] = ByteLRU(10)
    cache.insert("a", "old", 6)
    assert cache.insert("a", "new", 7) == []
    assert cache.lookup("a") == "new"
    assert (cache.unpin("a"), cache.unpin("a"), cache.unpin("a")) == ([], [], ["old"])
    assert cache.insert("a", "newest", 8) == ["new"]


def test_without_capacity_everything_still_serves_while_it_is_in_use() -> None:
    cache: ByteLRU[str] = ByteLRU(0)
    cache.insert("a", "A", 6)
    assert cache.lookup("a") == "A"
    assert (cache.unpin("a"), cache.unpin("a")) == ([], ["A"])
    assert cache.lookup("a") is None


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="-1 bytes"):
        ByteLRU(-1)
    with pytest.raises(ValueError, match="-2 bytes"):
        ByteLRU(1).insert("a", "A", -2)
    with pytest.raises(KeyError):
        ByteLRU(1).unpin("a")
