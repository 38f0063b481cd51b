"""Moments of requests: as many and as bursty as asked for."""

from __future__ import annotations

from itertools import islice, pairwise
from math import inf, nan
from pathlib import Path
from random import Random
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.bench.arrivals import Arrivals, Name, gamma, poisson
from easerve.errors import BadRequest


def gaps(moments: list[float]) -> list[float]:
    return [moments[0], *(later - earlier for earlier, later in pairwise(moments))]


@pytest.mark.parametrize("cv", [0.25, 0.5, 1.0, 2.0])
def test_gamma_gaps_have_the_mean_and_cv_asked_for(cv: float) -> None:
    found = gaps(list(islice(gamma(5.0, cv, Random(1)), 40_000)))
    assert fmean(found) == pytest.approx(0.2, rel=0.05)
    assert pstdev(found) / fmean(found) == pytest.approx(cv, rel=0.05)


def test_poisson_counts_vary_as_their_mean() -> None:
    moments = list(islice(poisson(5.0, Random(2)), 50_000))
    counts = [0] * int(moments[-1])
    for moment in moments:
        if moment < len(counts):
            counts[int(moment)] += 1
    assert fmean(counts) == pytest.approx(5.0, rel=0.03)
    assert pstdev(counts) ** 2 == pytest.approx(5.0, rel=0.08)


@given(
    st.sampled_from(["poisson", "gamma", "constant", "burst"]),
    st.floats(0.1, 100),
    st.integers(1, 200),
    st.floats(0, 3),
    st.integers(0, 9),
)
def test_every_process_is_pure_ordered_and_bounded(
    name: Name, rate: float, requests: int, cv: float, seed: int
) -> None:
    arrivals = Arrivals(name, cv=cv, burst=4)
    moments = arrivals.moments(rate, Random(seed), requests, None)
    assert moments == arrivals.moments(rate, Random(seed), requests, None)
    assert len(moments) == requests and moments == sorted(moments) and moments[0] >= 0
    cut = arrivals.moments(rate, Random(seed), requests, moments[-1] / 2)
    assert cut == [moment for moment in moments if moment < moments[-1] / 2]
    if name in ("poisson", "gamma", "constant"):
        assert moments[-1] == pytest.approx(requests / rate)


def test_bursts_come_together_and_keep_the_rate() -> None:
    moments = Arrivals("burst", burst=4).moments(2.0, Random(0), 12, None)
    assert moments == [0.0] * 4 + [2.0] * 4 + [4.0] * 4


def test_a_trace_starts_at_once_and_may_be_numbers_or_json(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    file.write_text('10\n{"timestamp": 10.5, "length": 3}\n12.25\n')
    assert Arrivals("trace", trace=file).moments(0, Random(0), None, None) == [0.0, 0.5, 2.25]
    assert Arrivals("trace", trace=file).moments(0, Random(0), None, 1.0) == [0.0, 0.5]
    file.write_text("1\nsoon\n")
    with pytest.raises(BadRequest, match="line 2"):
        Arrivals("trace", trace=file).moments(0, Random(0), None, None)
    file.write_text("1\nNaN\n")
    with pytest.raises(BadRequest, match="line 2"):
        Arrivals("trace", trace=file).moments(0, Random(0), None, None)
    file.write_text("\n")
    with pytest.raises(BadRequest, match="no moments"):
        Arrivals("trace", trace=file).moments(0, Random(0), None, None)


@pytest.mark.parametrize("rate", [0.0, -1.0, inf, nan])
def test_a_rate_is_above_nothing_and_finite(rate: float) -> None:
    with pytest.raises(BadRequest, match="rate"):
        Arrivals().moments(rate, Random(0), 3, None)
