"""Keys and values pass between vLLM and the torch engine in either direction, and from vLLM to vLLM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from easerve.engine.base import NewSequence
from easerve.request import SamplingParams
from tests.engine.helpers import Parts, drive, prefilled

from .engines import vllm_engine

GREEDY = SamplingParams(max_tokens=30, temperature=0.0, ignore_eos=True)
DRAWN = SamplingParams(max_tokens=30, temperature=2.0, top_k=40, seed=8, ignore_eos=True)


@pytest.fixture(scope="session")
def engine(builtin: Parts) -> Any:
    return vllm_engine(builtin, blocks=24, kv_travels=True)


@pytest.fixture
def asked(builtin: Parts) -> list[NewSequence]:
    """Shorter than a block, just one, more; the same tokens with other pictures; drawn."""
    return [
        builtin.sequence("text", 17, (), GREEDY),
        builtin.sequence("one block", 32, (), GREEDY),
        builtin.sequence("picture", 9, [(70, 90)], GREEDY),
        builtin.sequence("same tokens", 9, [(90, 70)], GREEDY),
        builtin.sequence("two pictures", 40, [(112, 112), (64, 64)], GREEDY, between=0),
        builtin.sequence("drawn", 12, [(64, 64)], DRAWN),
    ]


@pytest.mark.parametrize("way", ["vllm to torch", "torch to vllm", "vllm to vllm"])
def test_a_sequence_goes_on_elsewhere_as_if_it_had_stayed(
    builtin: Parts, engine: Any, asked: list[NewSequence], way: str
) -> None:
    expected = drive(builtin.engine(), asked).tokens
    sender, receiver = (engine if one == "vllm" else builtin.engine() for one in way.split(" to "))
    first, rest = prefilled(sender, asked)
    assert first.tokens == {name: tokens[:1] for name, tokens in expected.items()}
    assert all(output[-1].finish_reason is None for output in first.outputs.values())
    assert engine.stats().kv_blocks_used == 0
    after = drive(receiver, rest).tokens
    assert {name: first.tokens[name] + after[name] for name in expected} == expected


def test_both_engines_keep_the_same_numbers(builtin: Parts, engine: Any, asked: list[NewSequence]) -> None:
    ours, theirs = prefilled(builtin.engine(), asked)[0].handed, prefilled(engine, asked)[0].handed
    for name, kv in ours.items():
        assert theirs[name].next_position == kv.next_position
        torch.testing.assert_close(theirs[name].keys_values, kv.keys_values, atol=1e-4, rtol=1e-4)


def test_what_came_with_keys_and_values_gives_way_and_ends_as_ever(builtin: Parts, engine: Any) -> None:
    sampling = SamplingParams(max_tokens=120, temperature=0.0, ignore_eos=True)
    asked = [builtin.sequence(str(n), 20 + n, [(64, 64)][: n % 2], sampling) for n in range(12)]
    expected = drive(builtin.engine(), asked).tokens
    first, rest = prefilled(builtin.engine(), asked)
    before = engine.stats().preemptions
    after = drive(engine, rest).tokens
    assert engine.stats().preemptions > before
    assert {name: first.tokens[name] + after[name] for name in expected} == expected


def test_a_first_token_that_is_the_last_is_not_handed_over(builtin: Parts, engine: Any) -> None:
    only = [builtin.sequence("limit", 9, (), SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True))]
    stop = drive(engine, only).tokens["limit"][0]
    sampling = SamplingParams(max_tokens=9, temperature=0.0, stop_token_ids=(stop,))
    run = drive(
        engine, [replace(one, stop_after="prefill") for one in [*only, builtin.sequence("stop", 9, (), sampling)]]
    )
    assert (run.finished("limit"), run.finished("stop")) == ("length", "stop")
    assert not run.handed


def test_a_resumed_sequence_is_prefilled_and_handed_over_again(
    builtin: Parts, engine: Any, asked: list[NewSequence]
) -> None:
    expected = drive(builtin.engine(), asked).tokens
    resumed = [replace(one, produced=expected[one.id][:7]) for one in asked]
    first, rest = prefilled(engine, resumed)
    second, last = prefilled(engine, rest)  # what came with keys and values is handed on
    after = drive(engine, last).tokens
    for name, tokens in expected.items():
        assert tokens[:7] + first.tokens[name] + second.tokens[name] + after[name] == tokens
