"""An exception while a step computes fails whom it cannot spare, never the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from easerve.engine.base import NewSequence
from easerve.errors import EAServeError
from easerve.request import SamplingParams
from tests.engine.helpers import WORDS, Parts, Run, drive

DRAWN = SamplingParams(max_tokens=12, temperature=0.8, seed=4, ignore_eos=True)
NAMES = ("a", "b", "c", "d")


def batch(parts: Parts) -> list[NewSequence]:
    return [parts.sequence(name, 5 + 3 * n, [(64, 64)][: n % 2], DRAWN) for n, name in enumerate(NAMES)]


@pytest.fixture
def faulty(qwen: Parts, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[[Any], bool]], None]:
    """Have a part's method run out of memory when `when` says so of its first argument."""

    def install(method: str, when: Callable[[Any], bool]) -> None:
        sound = getattr(qwen.language, method)

        def failing(first: Any, *rest: Any, **named: Any) -> Any:
            result = sound(first, *rest, **named)
            if when(first):
                raise torch.OutOfMemoryError("the device is full")
            return result

        monkeypatch.setattr(qwen.language, method, failing)

    return install


@pytest.mark.parametrize("method", ["embed", "forward", "logits"])
def test_a_step_that_cannot_be_computed_fails_its_sequences_only(qwen: Parts, faulty, method: str) -> None:
    expected = drive(qwen.engine(), batch(qwen)).tokens
    broken = False
    faulty(method, lambda _: broken)
    engine, run = qwen.engine(max_sequences=3), Run()
    for one in batch(qwen):
        engine.add(one)
    for _ in range(3):
        run.take(engine.step())
    broken = True
    run.take(engine.step())
    broken = False
    assert set(run.failures) == {"a", "b", "c"}
    assert engine.stats().kv_blocks_used == 0
    for failure in run.failures.values():
        assert type(failure.error) is EAServeError
        assert "OutOfMemoryError" in failure.error.message
        assert run.tokens[failure.sequence_id] == expected[failure.sequence_id][:3]
    while engine.has_work():
        run.take(engine.step())
    assert run.tokens["d"] == expected["d"]
    assert drive(engine, batch(qwen)).tokens == expected, "the engine is none the worse"


@pytest.mark.parametrize("method", ["embed", "forward", "logits"])
@pytest.mark.parametrize("call", [1, 2, 4])
def test_a_fault_that_passes_costs_nobody_anything(qwen: Parts, faulty, method: str, call: int) -> None:
    """Halves do what the whole could not: while prefilling, while doing both, while decoding."""
    arrivals = {"c": 1, "d": 1}
    expected = drive(qwen.engine(), batch(qwen), arrivals).tokens
    calls: list[int] = []
    faulty(method, lambda first: calls.append(len(first)) or len(calls) == call)
    engine = qwen.engine()
    run = drive(engine, batch(qwen), arrivals)
    assert not run.failures
    assert run.tokens == expected
    assert len(calls) == DRAWN.max_tokens + 1 + 2, "the failed step took two more calls"
    assert engine.stats().kv_blocks_used == 0


def test_only_whoever_is_too_large_fails(qwen: Parts, faulty) -> None:
    """Memory for 40 rows: four that fit each but not together, beside one that never fits."""
    sequences = [NewSequence(str(n), (WORDS + WORDS)[n : n + 20], DRAWN) for n in range(4)]
    expected = drive(qwen.engine(), sequences).tokens
    faulty("forward", lambda embeds: len(embeds) > 40)
    engine = qwen.engine()
    run = drive(engine, [sequences[0], NewSequence("large", WORDS + WORDS, DRAWN), *sequences[1:]])
    assert list(run.failures) == ["large"]
    assert {one.id: run.tokens[one.id] for one in sequences} == expected
    assert engine.stats().kv_blocks_used == 0


def test_typed_errors_keep_their_words(qwen: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    def typed(*_: object, **__: object) -> torch.Tensor:
        raise EAServeError("said plainly")

    monkeypatch.setattr(qwen.language, "forward", typed)
    run = drive(qwen.engine(), [qwen.sequence("a", 5)])
    assert run.failures["a"].error.message == "said plainly"
