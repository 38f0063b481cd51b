"""The arena: pieces in use never overlap, hold what was written, and come back when their last view ends."""

from __future__ import annotations

import gc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.transfer.arena import SLAB_BYTES, Arena, Bytes, Space

SIZE = 100


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 60)), max_size=60))
def test_space_is_used_once_and_comes_back_whole(steps: list[tuple[bool, int]]) -> None:
    space = Space(SIZE)
    used: dict[int, int] = {}
    for take, number in steps:
        if take:
            free = np.ones(SIZE, bool)
            for offset, length in used.items():
                free[offset : offset + length] = False
            fits = any(free[start : start + number].all() for start in range(SIZE - number + 1))
            offset = space.take(number)
            assert (offset is not None) == fits
            if offset is not None:
                assert free[offset : offset + number].all() and offset + number <= SIZE
                used[offset] = number
        elif used:
            offset = sorted(used)[number % len(used)]
            space.give(offset, used.pop(offset))
    for offset, length in used.items():
        space.give(offset, length)
    assert space.take(SIZE) == 0


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, SLAB_BYTES // 8), min_size=1, max_size=12), st.data())
def test_pieces_keep_what_was_written_until_their_last_view_ends(sizes: list[int], data: st.DataObject) -> None:
    slabs: list[Bytes] = []
    arena = Arena(slabs.append)
    for _ in range(3):
        views = []
        for value, size in enumerate(sizes):
            number, piece = arena.take(size)
            assert np.shares_memory(piece, slabs[number])
            piece[:] = value
            views.append(memoryview(piece)[data.draw(st.integers(0, size - 1)) :])
            del piece
            gc.collect(0)
        for value, view in enumerate(views):
            assert view[0] == view[-1] == value
    del views, view
    assert len(slabs) <= 2, "memory must be used again"
