"""The share table against its defining inequalities, worked out by brute force."""

from __future__ import annotations

import math
from itertools import pairwise
from timeit import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.policy.partition import Dynamic, EncodeProfile, SafeRange, Static, Unpartitioned

SECONDS = st.floats(1e-4, 10.0)


@st.composite
def profiles(draw: st.DrawFn) -> EncodeProfile:
    """Any: noisy, without order."""
    batches = sorted(draw(st.sets(st.integers(1, 64), min_size=1, max_size=5)))
    units = sorted(draw(st.sets(st.integers(1, 132), min_size=1, max_size=6)))
    rows = [tuple(draw(SECONDS) for _ in units) for _ in batches]
    return EncodeProfile(tuple(batches), tuple(units), tuple(rows))


@st.composite
def scaling_profiles(draw: st.DrawFn) -> EncodeProfile:
    """T(b, m) = alpha + beta * b * M / min(m, b * knee): more units help, up to a knee."""
    alpha, beta = draw(st.floats(1e-4, 0.1)), draw(st.floats(1e-4, 0.1))
    knee, whole = draw(st.integers(1, 40)), 128
    units = tuple(range(8, whole + 1, 8))
    rows = [tuple(alpha + beta * b * whole / min(m, b * knee) for m in units) for b in (1, 2, 4, 8, 16)]
    return EncodeProfile((1, 2, 4, 8, 16), units, tuple(rows))


RATES = st.one_of(st.just(0.0), st.floats(1e-3, 1e5), st.just(math.inf))
SAFE = st.builds(SafeRange, slack=st.floats(0, 1), busiest=st.floats(0.1, 0.99), most=st.floats(0.3, 1))


@given(profiles())
def test_the_closure_is_monotone_and_changes_nothing_that_is_monotone_already(profile: EncodeProfile) -> None:
    closed = profile.monotone()
    assert all(wide <= narrow for row in closed.seconds for narrow, wide in pairwise(row))
    assert all(few <= many for above, below in pairwise(closed.seconds) for few, many in zip(above, below, strict=True))
    assert closed.monotone() == closed


@given(st.one_of(profiles(), scaling_profiles()), SAFE, RATES)
def test_a_larger_batch_never_has_a_smaller_share(profile: EncodeProfile, safe: SafeRange, rate: float) -> None:
    dynamic = Dynamic(profile, safe)
    shares = [dynamic.during(items, rate) for items in range(1, profile.batches[-1] + 2)]
    asked = [profile.whole if share is None else share for share in shares]
    assert asked == sorted(asked)
    assert shares[-1] is None  # larger than any that was profiled


@given(st.one_of(profiles(), scaling_profiles()), SAFE, RATES)
def test_a_share_is_the_smallest_that_is_safe_for_the_batch_and_all_smaller_ones(
    profile: EncodeProfile, safe: SafeRange, rate: float
) -> None:
    times, whole = profile.monotone().seconds, profile.whole
    keeps_up = [
        [seconds * rate <= safe.busiest * items * (1 + 1e-9) for seconds in row]
        for items, row in zip(profile.batches, times, strict=True)
    ]
    for row, items in enumerate(profile.batches):
        share = Dynamic(profile, safe).during(items, rate)
        if share is None:
            continue
        column = profile.units.index(share)
        assert share <= safe.most * whole
        assert times[row][column] <= (1 + safe.slack) * times[row][-1]
        assert any(one[-1] for one in keeps_up[row:])
        assert keeps_up[row][column] or not keeps_up[row][-1]
        if column > 0:  # one step less is unsafe for this batch or for a smaller one
            less = column - 1
            assert any(
                times[above][less] > (1 + safe.slack) * times[above][-1]
                or times[above][less] * rate > safe.busiest * profile.batches[above] * (1 - 1e-9)
                for above in range(row + 1)
            )


@given(scaling_profiles(), SAFE)
def test_what_cannot_keep_up_at_any_batch_has_no_share(profile: EncodeProfile, safe: SafeRange) -> None:
    capacity = max(items / row[-1] for items, row in zip(profile.batches, profile.seconds, strict=True))
    dynamic = Dynamic(profile, safe)
    assert all(dynamic.during(items, safe.busiest * capacity * 1.001) is None for items in profile.batches)
    assert all(dynamic.during(items, math.inf) is None for items in profile.batches)


def test_the_stability_bound_widens_shares_before_it_takes_the_whole_device() -> None:
    seconds = {16: 0.105, 32: 0.103, 64: 0.1, 96: 0.097, 128: 0.096}  # of one item; all within the slack
    dynamic = Dynamic(EncodeProfile((1,), tuple(seconds), (tuple(seconds.values()),)))
    assert dynamic.during(1) == 16
    assert dynamic.during(1, 0.9 / 0.105) == 16
    assert dynamic.during(1, 0.9 / 0.1) == 64
    assert dynamic.during(1, 0.9 / 0.097) == 96
    assert dynamic.during(1, 0.9 / 0.096) is None  # the whole device, which is more than 90 % of it


def test_a_small_batch_that_cannot_keep_up_gives_way_to_one_that_can() -> None:
    profile = EncodeProfile((1, 8), (8, 64, 128), ((0.11, 0.1, 0.1), (0.4, 0.21, 0.2)))
    at_work = 20.0  # items a second: a batch of one would have to take 45 ms, a batch of eight 360
    assert Dynamic(profile).during(1, at_work) == 8
    assert Dynamic(profile).during(8, at_work) == 64


def test_where_no_share_is_safe_the_table_collapses() -> None:
    halves = EncodeProfile((1, 4), (1, 2), ((0.2, 0.1), (0.8, 0.4)))
    assert Dynamic(halves).collapsed
    assert Dynamic(EncodeProfile((1,), (1,), ((0.1,),))).collapsed  # one core
    small = EncodeProfile((1, 4), (1, 2), ((0.1, 0.1), (0.8, 0.4)))
    assert not Dynamic(small).collapsed
    assert [Dynamic(small).during(items) for items in (1, 2, 4)] == [1, None, None]


def test_static_takes_what_is_nearest_and_none_takes_nothing() -> None:
    static = Static(0.5 * 132, choices=(16, 32, 48, 64, 80))
    assert static.idle == 64
    assert {static.during(items, rate) for items in (1, 100) for rate in (0.0, math.inf)} == {64}
    assert Unpartitioned().during(8) is None
    with pytest.raises(ValueError, match="cannot be split"):
        Static(0.5, choices=())


@pytest.mark.parametrize(
    ("batches", "units", "seconds"),
    [
        ((), (1,), ()),
        ((2, 1), (1,), ((0.1,), (0.1,))),
        ((1,), (0, 2), ((0.1, 0.1),)),
        ((1,), (1, 2), ((0.1,),)),
        ((1,), (1,), ((0.0,),)),
        ((1,), (1,), ((math.nan,),)),
    ],
)
def test_a_profile_that_is_none_is_refused(batches: tuple, units: tuple, seconds: tuple) -> None:
    with pytest.raises(ValueError):
        EncodeProfile(batches, units, seconds)


def test_a_lookup_takes_microseconds(capsys: pytest.CaptureFixture[str]) -> None:
    rows = tuple(tuple(0.01 + 0.002 * b * 128 / min(m, 10 * b) for m in range(8, 129, 8)) for b in range(1, 17))
    dynamic = Dynamic(EncodeProfile(tuple(range(1, 17)), tuple(range(8, 129, 8)), rows))
    runs = 20_000
    seconds = timeit(lambda: dynamic.during(7, 50.0), number=runs) / runs
    with capsys.disabled():
        print(f"\nshare lookup: {seconds * 1e6:.2f} us")
    assert dynamic.during(7, 50.0) is not None
