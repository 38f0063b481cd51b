"""Abort frees a sequence's blocks at once, at whatever moment, and the others never notice."""

from __future__ import annotations

import pytest

from easerve.engine.base import NewSequence
from easerve.request import SamplingParams
from tests.engine.helpers import Parts, Run, drive

NAMES = ("text", "picture", "drawn", "queued")


def batch(parts: Parts) -> list[NewSequence]:
    greedy = SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True)
    drawn = SamplingParams(max_tokens=8, temperature=0.8, seed=3, ignore_eos=True)
    return [
        parts.sequence("text", 14, sampling=greedy),
        parts.sequence("picture", 6, [(64, 64)], greedy),
        parts.sequence("drawn", 9, sampling=drawn),
        parts.sequence("queued", 12, sampling=greedy),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_abort_at_every_step_leaks_nothing_and_spares_the_others(qwen: Parts, name: str) -> None:
    expected = drive(qwen.engine(), batch(qwen)).tokens
    engine = qwen.engine(block_size=4, kv_cache_tokens=64, max_batched_tokens=8, max_sequences=3)
    step = 0
    while True:
        run = Run()
        for one in batch(qwen):
            engine.add(one)
        for _ in range(step):
            run.take(engine.step())
        done = run.finished(name) is not None
        before, held = engine.stats().kv_blocks_used, name in {one.id for one in engine._scheduler.running}
        engine.abort(name)
        assert engine.stats().kv_blocks_used < before or not held
        while engine.has_work():
            run.take(engine.step())
        assert engine.stats().kv_blocks_used == 0
        for other in NAMES:
            assert run.tokens[other] == expected[other][: len(run.tokens[other])]
            assert other == name or run.finished(other)
        if done:
            break
        step += 1
    assert step > 8


def test_unknown_ids_are_ignored_and_ids_can_come_again(qwen: Parts) -> None:
    engine = qwen.engine()
    engine.abort("never seen")
    first = drive(engine, [qwen.sequence("a", 8)]).tokens
    engine.abort("a")
    assert drive(engine, [qwen.sequence("a", 8)]).tokens == first


def test_an_idle_engine_steps_without_effect(qwen: Parts) -> None:
    engine = qwen.engine()
    assert not engine.has_work()
    assert engine.step() == []
