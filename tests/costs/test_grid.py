"""Interpolation: what was measured at its sizes, never outside of the neighbours, never falling."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.costs.grid import Curve, Surface, geometric

SECONDS = st.floats(1e-6, 1e3)
SIZES = st.lists(st.integers(1, 10**6), min_size=2, max_size=8, unique=True).map(sorted)


@given(SIZES, st.data())
def test_a_curve_lies_between_its_neighbours_and_never_falls(xs: list[int], data: st.DataObject) -> None:
    ys = data.draw(st.lists(SECONDS, min_size=len(xs), max_size=len(xs)))
    curve = Curve(xs, ys)
    low, high = sorted(data.draw(st.tuples(*[st.floats(0, 2e6)] * 2)))
    assert curve(low) <= curve(high) * (1 + 1e-9)
    for left, right in pairwise(xs):
        inside = data.draw(st.floats(left, right))
        assert curve(left) * (1 - 1e-9) <= curve(inside) <= curve(right) * (1 + 1e-9)


@given(SIZES, st.floats(1e-6, 1), st.floats(0, 1e-3))
def test_a_straight_line_is_kept_beyond_the_last_size(xs: list[int], fixed: float, pace: float) -> None:
    curve = Curve(xs, [fixed + pace * x for x in xs])
    assert curve(3 * xs[-1]) == pytest.approx(fixed + pace * 3 * xs[-1], rel=1e-6)
    assert curve(0) == curve(xs[0])


@given(SIZES, SIZES, st.data())
def test_a_surface_is_what_was_measured_where_that_never_falls(
    xs: list[int], ys: list[int], data: st.DataObject
) -> None:
    one, other, both = data.draw(st.tuples(*[st.floats(0, 1e-3)] * 3))

    def bilinear(x: float, y: float) -> float:
        return 1 + one * x + other * y + both * x * y

    surface = Surface.of(bilinear, xs, ys)
    x, y = data.draw(st.floats(xs[0], 2 * xs[-1])), data.draw(st.floats(ys[0], 2 * ys[-1]))
    assert surface(x, y) == pytest.approx(bilinear(x, y), rel=1e-6)


@given(SIZES, SIZES, st.data())
def test_a_surface_of_noise_never_falls_along_either_size(xs: list[int], ys: list[int], data: st.DataObject) -> None:
    rows = st.lists(SECONDS, min_size=len(ys), max_size=len(ys))
    surface = Surface(xs, ys, data.draw(st.lists(rows, min_size=len(xs), max_size=len(xs))))
    (x, more_x), (y, more_y) = (sorted(data.draw(st.tuples(*[st.floats(0, size[-1])] * 2))) for size in (xs, ys))
    assert surface(x, y) <= surface(more_x, more_y) * (1 + 1e-9)


@given(st.integers(1, 50), st.integers(1, 10**5), st.floats(1.01, 3))
def test_sizes_ascend_from_the_first_to_the_last(first: int, more: int, ratio: float) -> None:
    sizes = geometric(first, first + more, ratio)
    assert (sizes[0], sizes[-1]) == (first, first + more)
    assert all(low < high <= max(low + 1, low * ratio + 1) for low, high in pairwise(sizes))


def test_sizes_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(ValueError, match="ascend"):
        Curve([1, 1], [0.1, 0.2])
