"""What is learnt while serving: arrival rate, service time, tokens per second, lengths of answers."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.policy.answers import AnswerLength
from easerve.policy.arrivals import ArrivalRate
from easerve.policy.rates import TokenRate
from easerve.policy.service import ServiceTime
from tests.policy.arrivals import poisson


def test_the_mean_gap_is_estimated_without_bias_and_its_reciprocal_is_not() -> None:
    rate = 25.0
    estimate = ArrivalRate(configured_rate=rate)
    gaps, rates = [], []
    for now in poisson(rate, 200_000, 5):
        estimate.observe(now)
        assert estimate.mean_interarrival is not None and estimate.rate is not None
        gaps.append(estimate.mean_interarrival)
        rates.append(estimate.rate)
    assert fmean(gaps) * rate == pytest.approx(1, abs=0.01)
    assert fmean(rates) / rate == pytest.approx(1.05, abs=0.015)


def test_the_estimate_starts_as_configured_and_moves_by_closed_gaps_only() -> None:
    estimate = ArrivalRate(workers=2, configured_rate=4.0, eta=0.25)
    assert estimate.mean_interarrival == 0.5
    estimate.observe(100.0)
    assert estimate.mean_interarrival == 0.5
    estimate.observe(101.25)
    assert estimate.mean_interarrival == 1.0
    estimate.workers = 1
    assert estimate.mean_interarrival == 0.5
    assert estimate.rate == 2.0


def test_without_a_configured_rate_the_first_gap_is_the_estimate() -> None:
    estimate = ArrivalRate()
    estimate.observe(1.0)
    assert estimate.mean_interarrival is None and estimate.rate is None
    estimate.observe(3.0)
    assert estimate.mean_interarrival == 2.0


def test_a_rate_or_weight_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        ArrivalRate(configured_rate=0.0)
    with pytest.raises(ValueError, match="eta"):
        ArrivalRate(eta=0.0)


@given(st.floats(0.001, 1), st.floats(0.001, 1), st.randoms(use_true_random=False))
def test_service_time_finds_the_line_whatever_it_was_told_first(alpha: float, beta: float, random: Random) -> None:
    service = ServiceTime(beta, alpha)
    for index in range(600):
        size = random.choice((1, 2, 5, 8)) if index % 4 else 1 + index % 8
        service.observe(size, alpha + beta * size)
    for size in (1, 4, 8):
        assert service.predict(size) == pytest.approx(alpha + beta * size, rel=0.01)


seconds = st.just(0.0) | st.floats(1e-6, 10)


@given(st.lists(st.tuples(st.integers(1, 16), seconds), max_size=60), seconds, seconds)
def test_service_time_never_has_a_negative_part(seen: list[tuple[int, float]], alpha: float, beta: float) -> None:
    service = ServiceTime(alpha, beta)
    for items, taken in seen:
        service.observe(items, taken)
        assert service.alpha >= 0 and service.beta >= 0


@pytest.mark.parametrize(("alpha", "beta", "shape"), [(0.3, 0.1, 3.0), (0.0, 0.0, 0.0)])
def test_batches_of_one_size_leave_the_shape_as_it_was(alpha: float, beta: float, shape: float) -> None:
    service = ServiceTime(alpha, beta)
    for _ in range(1000):
        service.observe(4, 2.0)
    assert service.predict(4) == pytest.approx(2.0)
    assert service.alpha == pytest.approx(shape * service.beta)


def test_service_time_follows_a_change() -> None:
    service = ServiceTime(0.1, 0.1)
    for alpha in (0.1, 0.5):
        for index in range(400):
            service.observe(1 + index % 8, alpha + 0.1 * (1 + index % 8))
        assert service.alpha == pytest.approx(alpha, rel=0.02)


def test_a_token_rate_predicts_the_time_of_the_sum() -> None:
    rate = TokenRate(eta=0.5)
    assert rate.tokens_per_second is None
    rate.observe(100, 1.0)
    assert rate.tokens_per_second == 100.0
    rate.observe(300, 7.0)
    assert rate.tokens_per_second == 200 / 4


@given(st.lists(st.integers(1, 500), max_size=60), st.integers(1, 500))
def test_what_an_answer_may_still_bring_is_within_what_was_seen_and_its_limit(seen: list[int], limit: int) -> None:
    answers = AnswerLength()
    assert answers.expect(limit) == limit
    for tokens in seen:
        answers.observe(tokens)
        assert min(limit, *seen) <= answers.expect(limit) <= min(limit, max(seen))


def test_the_length_of_answers_is_followed() -> None:
    answers = AnswerLength(eta=0.5)
    for tokens, expected in ((100, 100), (300, 200), (0, 100)):
        answers.observe(tokens)
        assert answers.expect(1000) == expected
