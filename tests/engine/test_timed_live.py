"""The timed engines as a worker drives them: protocols, times and tokens."""

from __future__ import annotations

import numpy as np
import pytest

from easerve.engine.base import EngineStats, NewSequence, Prefilled
from easerve.engine.timed.engines import TimedEncoder, TimedLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.request import SamplingParams, TokenOutput
from tests.simulate.worlds import LinearCosts, size

PLACEHOLDER = 9


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def engine(clock: Clock) -> TimedLanguageModel:
    return TimedLanguageModel(LinearCosts(), EngineOptions(), PLACEHOLDER, clock.sleep, clock)


def test_encode_takes_its_time_and_gives_embeddings_of_the_right_length() -> None:
    clock = Clock()
    encoder = TimedEncoder(LinearCosts(), size, clock.sleep)
    made = encoder.encode([np.zeros((224, 224, 3), np.uint8), np.zeros((28, 56, 3), np.uint8)])
    assert clock.now == pytest.approx(0.004 + 2 * 0.01)
    assert [one.values.shape[0] for one in made] == [64, 2]


def test_a_sequence_goes_from_prefill_to_decode_and_answers_as_one_engine_would() -> None:
    prompt = [1, PLACEHOLDER, PLACEHOLDER, 2, 3]
    sampling = SamplingParams(max_tokens=7)
    clock = Clock()
    whole = engine(clock)
    whole.add(NewSequence("a", prompt, sampling))
    expected = []
    while whole.has_work():
        expected += [event.token_id for event in whole.step() if isinstance(event, TokenOutput)]
    assert expected == [1, 2, 3, 1, 2, 3, 1]
    assert clock.now == pytest.approx(7 * 0.005 + (5 + 6) * 0.0001)

    first, second = engine(Clock()), engine(Clock())
    first.add(NewSequence("a", prompt, sampling, stop_after="prefill"))
    output, prefilled = first.step()
    assert isinstance(output, TokenOutput) and isinstance(prefilled, Prefilled)
    assert not first.has_work() and prefilled.kv.tokens == 5
    second.add(NewSequence("a", prompt, sampling, produced=[output.token_id], kv=prefilled.kv))
    tokens = [output.token_id]
    while second.has_work():
        tokens += [event.token_id for event in second.step() if isinstance(event, TokenOutput)]
    assert tokens == expected
    assert second.stats() == EngineStats(0, 0, second.stats().kv_blocks_total, 0, 0, 0, 6, 0, 0)


def test_an_aborted_sequence_leaves_nothing() -> None:
    model = engine(Clock())
    model.add(NewSequence("a", [1, 2], SamplingParams(max_tokens=7)))
    model.step()
    model.abort("a")
    model.abort("never there")
    assert not model.has_work() and model.stats().kv_blocks_used == 0
