"""What a sequence answers depends neither on who shares its steps, nor on how its prompt is cut, nor on where its
blocks lie."""

from __future__ import annotations

import pytest

from easerve.engine.base import NewSequence
from easerve.request import SamplingParams
from tests.engine.helpers import WORDS, Parts, alone, drive, mixed


def test_batch_of_mixed_lengths_equals_each_alone(parts: Parts) -> None:
    sequences = mixed(parts)
    expected = {one.id: alone(parts, one) for one in sequences}
    assert drive(parts.engine(), sequences).tokens == expected


@pytest.mark.parametrize("budget", [1, 2, 7, 23])
def test_chunked_prefill_equals_whole_prefill(parts: Parts, budget: int) -> None:
    """Budgets this small cut pictures in two, deepstack levels with them."""
    sequences = mixed(parts)
    expected = drive(parts.engine(), sequences).tokens
    assert drive(parts.engine(max_batched_tokens=budget), sequences).tokens == expected


def test_late_arrivals_join_and_leave_without_a_trace(qwen: Parts) -> None:
    sequences = mixed(qwen)
    expected = drive(qwen.engine(), sequences).tokens
    arrivals = {one.id: 3 * number for number, one in enumerate(sequences)}
    run = drive(qwen.engine(max_batched_tokens=16, max_sequences=3, block_size=4), sequences, arrivals)
    assert run.tokens == expected


def test_decode_comes_first_and_prefill_gets_the_rest(qwen: Parts) -> None:
    engine = qwen.engine(max_batched_tokens=8)
    engine.add(qwen.sequence("old", 4, sampling=SamplingParams(max_tokens=50, temperature=0.0, ignore_eos=True)))
    engine.step()
    engine.add(NewSequence("new", WORDS[:21], SamplingParams(temperature=0.0)))
    tokens = [{event.sequence_id for event in engine.step()} for _ in range(3)]
    assert tokens == [{"old"}, {"old"}, {"old", "new"}]  # 7 prompt tokens a step beside one decoded


def test_no_more_sequences_at_once_than_asked_for(qwen: Parts) -> None:
    engine = qwen.engine(max_sequences=2)
    for name in "abcd":
        engine.add(qwen.sequence(name, 5))
    engine.step()
    assert (engine.stats().running, engine.stats().waiting) == (2, 2)
