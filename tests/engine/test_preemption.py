"""A pool that is too small costs time, never an answer: everyone finishes, with the tokens of an unlimited pool."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from easerve.engine.base import NewSequence
from easerve.request import SamplingParams
from tests.engine.helpers import WORDS, Parts, alone, drive

KINDS = 6
PICTURE = (64, 64)
TIGHT = {"block_size": 4, "kv_cache_tokens": 68}  # the longest below needs 64


def sequence(parts: Parts, name: str, kind: int, most: int) -> NewSequence:
    """Text and pictures, greedy and drawn, of 1 to 44 prompt tokens."""
    drawn = SamplingParams(max_tokens=most, temperature=0.9, seed=kind, ignore_eos=True, repetition_penalty=1.2)
    greedy = SamplingParams(max_tokens=most, temperature=0.0, ignore_eos=True)
    made = [
        lambda: NewSequence(name, WORDS[:1], greedy),
        lambda: NewSequence(name, WORDS[3:20], drawn),
        lambda: NewSequence(name, (WORDS + WORDS)[:44], greedy),
        lambda: parts.sequence(name, 5, [PICTURE], greedy),
        lambda: parts.sequence(name, 6, [PICTURE, PICTURE], drawn, between=0),
        lambda: NewSequence(name, WORDS[5:18], greedy),
    ]
    return made[kind]()


@pytest.fixture(scope="session")
def expected(parts_of):
    """Answers from an engine of one's own, with room for everything."""

    @cache
    def tokens(kind: int, most: int) -> list[int]:
        parts = parts_of("qwen2_5_vl")
        return alone(parts, sequence(parts, "x", kind, most))

    return tokens


REQUESTS = st.lists(
    st.tuples(st.integers(0, KINDS - 1), st.sampled_from([1, 2, 5, 11, 20]), st.integers(0, 12)), min_size=1, max_size=7
)


@given(requests=REQUESTS, budget=st.sampled_from([3, 8, 16, 512]), places=st.sampled_from([1, 3, 64]))
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_arrivals_finish_with_the_tokens_of_an_unlimited_pool(qwen, expected, requests, budget, places) -> None:
    engine = qwen.engine(**TIGHT, max_batched_tokens=budget, max_sequences=places)
    names = [str(number) for number in range(len(requests))]
    sequences = [sequence(qwen, name, kind, most) for name, (kind, most, _) in zip(names, requests, strict=True)]
    run = drive(engine, sequences, {name: step for name, (_, _, step) in zip(names, requests, strict=True)})
    assert run.tokens == {name: expected(kind, most) for name, (kind, most, _) in zip(names, requests, strict=True)}
    assert engine.stats().kv_blocks_used == 0
    assert not run.failures


def test_a_burst_on_a_tight_pool_preempts_and_still_answers_the_same(qwen: Parts, expected) -> None:
    engine = qwen.engine(**TIGHT, max_batched_tokens=32)
    run = drive(engine, [sequence(qwen, str(kind), kind, 20) for kind in range(KINDS)])
    assert engine.stats().preemptions > 0
    assert run.tokens == {str(kind): expected(kind, 20) for kind in range(KINDS)}


def test_deepstack_pictures_survive_preemption(deepstack: Parts) -> None:
    sequences = [sequence(deepstack, str(number), 4, 20) for number in range(4)]
    engine = deepstack.engine(block_size=4, kv_cache_tokens=68, max_batched_tokens=16)
    lone = alone(deepstack, sequences[0])
    assert drive(engine, sequences).tokens == {one.id: lone for one in sequences}
    assert engine.stats().preemptions > 0


def test_first_token_times_come_once_whatever_happens(qwen: Parts) -> None:
    engine = qwen.engine(**TIGHT, max_batched_tokens=32)
    run = drive(engine, [sequence(qwen, str(kind), kind, 20) for kind in range(KINDS)])
    for outputs in run.outputs.values():
        first, *later = outputs
        assert first.times is not None
        assert first.times.queue >= 0
        assert first.times.prefill > 0
        assert all(one.times is None for one in later)


def test_queue_time_is_the_wait_for_the_first_chunk(qwen: Parts) -> None:
    engine = qwen.engine(max_sequences=1)
    run = drive(engine, [sequence(qwen, name, 5, 10) for name in ("first", "second")])
    first, second = (run.outputs[name][0].times for name in ("first", "second"))
    assert first is not None
    assert second is not None
    assert second.queue > first.queue + first.prefill


def test_counters_account_for_every_token(qwen: Parts) -> None:
    engine = qwen.engine()
    sequences = [sequence(qwen, str(kind), kind, 5) for kind in range(KINDS)]
    for one in sequences:
        engine.add(one)
    assert engine.stats().pending_tokens == sum(len(one.prompt) for one in sequences)
    drive(engine, [])
    stats = engine.stats()
    assert stats.prompt_tokens == sum(len(one.prompt) for one in sequences)
    assert stats.output_tokens == 5 * KINDS
    assert (stats.pending_tokens, stats.running, stats.waiting, stats.kv_blocks_used) == (0, 0, 0, 0)
