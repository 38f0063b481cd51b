"""Prefill on one engine and decode on another give the tokens of a single engine, whatever the two look like."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from easerve.engine.base import KVState, NewSequence, Prefilled, SequenceFailed
from easerve.engine.torch.kv_cache import KVCache
from easerve.errors import EAServeError
from easerve.request import SamplingParams, TokenOutput
from tests.engine.helpers import WORDS, Parts, Run, alone, drive, load_parts, mixed, prefilled

PICTURE = (64, 64)


def joined(first: Run, second: Run) -> dict[str, list[int]]:
    assert not first.failures
    assert not second.failures
    return {name: tokens + second.tokens.get(name, []) for name, tokens in first.tokens.items()}


@pytest.mark.parametrize(("block", "budget", "other"), [(16, 512, 16), (4, 7, 8), (8, 23, 1)])
def test_tokens_are_those_of_one_engine(parts: Parts, block: int, budget: int, other: int) -> None:
    """Blocks of different sizes on both sides, prompts and pictures cut in chunks, all families."""
    sequences = mixed(parts)
    prefill = parts.engine(block_size=block, max_batched_tokens=budget)
    decode = parts.engine(block_size=other, max_batched_tokens=budget)
    first, rest = prefilled(prefill, sequences)
    assert prefill.stats().kv_blocks_used == 0
    assert not prefill.has_work()
    assert len(rest) > 3
    assert all(len(tokens) == 1 for tokens in first.tokens.values())
    second = drive(decode, rest)
    assert joined(first, second) == drive(parts.engine(), sequences).tokens
    assert decode.stats().kv_blocks_used == 0
    assert decode.stats().prompt_tokens == 0, "a prompt was computed again"


def test_tokens_are_those_of_one_engine_on_the_builtin_model(builtin: Path) -> None:
    parts = load_parts(builtin)
    drawn = SamplingParams(max_tokens=12, temperature=1.0, seed=3, ignore_eos=True)
    sequences = [parts.sequence("a", 10, [(112, 112)]), parts.sequence("b", 8, [(60, 90), (112, 112)], drawn)]
    first, rest = prefilled(parts.engine(), sequences)
    assert joined(first, drive(parts.engine(block_size=8), rest)) == drive(parts.engine(), sequences).tokens


def test_the_state_is_one_tensor_of_all_tokens_but_the_newest(deepstack: Parts) -> None:
    sequence = deepstack.sequence("a", 8, [PICTURE])
    run, _ = prefilled(deepstack.engine(), [sequence])
    kv, shape = run.handed["a"], deepstack.language.kv
    assert kv.keys_values.shape == (shape.layers, 2, len(sequence.prompt), shape.kv_heads, shape.head_dim)
    assert kv.keys_values.dtype == shape.dtype
    assert kv.keys_values.is_contiguous()
    assert kv.tokens == len(sequence.prompt)
    assert kv.next_position < kv.tokens  # a picture's box is shorter than its tokens are many


def test_a_sequence_that_its_first_token_ends_is_not_handed_over(qwen: Parts) -> None:
    run, rest = prefilled(qwen.engine(), [qwen.sequence("a", 8, sampling=SamplingParams(max_tokens=1, seed=1))])
    assert run.finished("a") == "length"
    assert not rest


def test_the_first_token_comes_before_the_state_in_one_step(qwen: Parts) -> None:
    engine = qwen.engine()
    engine.add(replace(qwen.sequence("a", 8), stop_after="prefill"))
    first, second = engine.step()
    assert isinstance(first, TokenOutput)
    assert first.times is not None
    assert isinstance(second, Prefilled)


# Under pressure

KINDS, MOST = 5, 18
TIGHT = {"block_size": 4, "kv_cache_tokens": 68}  # the longest below needs 61


def sequence(parts: Parts, kind: int) -> NewSequence:
    drawn = SamplingParams(max_tokens=MOST, temperature=0.9, seed=kind, ignore_eos=True, repetition_penalty=1.2)
    greedy = SamplingParams(max_tokens=MOST, temperature=0.0, ignore_eos=True)
    made = [
        lambda: NewSequence("", WORDS[:1], greedy),
        lambda: NewSequence("", WORDS[3:20], drawn),
        lambda: NewSequence("", (WORDS + WORDS)[:43], greedy),
        lambda: parts.sequence("", 5, [PICTURE], greedy),
        lambda: parts.sequence("", 6, [PICTURE, PICTURE], drawn, between=0),
    ]
    return made[kind]()


@pytest.fixture(scope="session")
def expected(parts_of):
    @cache
    def tokens(kind: int) -> list[int]:
        parts = parts_of("qwen3_vl")
        return alone(parts, sequence(parts, kind))

    return tokens


@pytest.fixture(scope="session")
def state(parts_of, expected):
    """Keys and values of a prompt and its first `cut` output tokens."""

    @cache
    def kv(kind: int, cut: int) -> KVState:
        parts = parts_of("qwen3_vl")
        run, _ = prefilled(parts.engine(), [replace(sequence(parts, kind), produced=expected(kind)[:cut])])
        assert run.tokens[""] == expected(kind)[cut : cut + 1]
        return run.handed[""]

    return kv


# (kind, step of arrival, output tokens it comes with, how many of them its keys and values lack; 0: comes with none)
REQUESTS = st.lists(
    st.tuples(st.integers(0, KINDS - 1), st.integers(0, 9), st.integers(0, MOST - 1), st.integers(0, 4)),
    min_size=2,
    max_size=7,
)


@given(requests=REQUESTS, budget=st.sampled_from([3, 16, 512]), places=st.sampled_from([1, 3, 64]))
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_begun_here_resumed_and_handed_over_share_a_tight_pool(
    deepstack, expected, state, requests, budget, places
) -> None:
    """Whoever brings whatever, when, and however often it is displaced: the tokens are those of an own engine."""
    engine = deepstack.engine(**TIGHT, max_batched_tokens=budget, max_sequences=places)
    sequences, arrivals = [], {}
    for number, (kind, arrival, cut, lacks) in enumerate(requests):
        new = replace(sequence(deepstack, kind), id=str(number), produced=expected(kind)[:cut])
        if 0 < lacks <= cut:
            new = replace(new, media=[], kv=state(kind, cut - lacks))
        sequences.append(new)
        arrivals[new.id] = arrival
    run = drive(engine, sequences, arrivals)
    assert not run.failures
    rest = [expected(kind)[cut:] for kind, _, cut, _ in requests]
    assert run.tokens == {one.id: tokens for one, tokens in zip(sequences, rest, strict=True)}
    assert engine.stats().kv_blocks_used == 0


def arriving(parts: Parts, expected, state) -> list[NewSequence]:
    """Pictures handed over that together outgrow the tight pool."""
    one = replace(sequence(parts, 3), media=[], produced=expected(3)[:1], kv=state(3, 0))
    return [replace(one, id=str(number)) for number in range(4)]


def test_a_displaced_sequence_goes_on_without_computing_anything_again(
    deepstack: Parts, expected, state, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, embed = [], deepstack.language.embed
    monkeypatch.setattr(deepstack.language, "embed", lambda ids: rows.append(len(ids)) or embed(ids))
    engine = deepstack.engine(**TIGHT)
    run = drive(engine, arriving(deepstack, expected, state))
    assert engine.stats().preemptions > 0
    assert set(map(tuple, run.tokens.values())) == {tuple(expected(3)[1:])}
    assert sum(rows) == 4 * (MOST - 1)


def test_what_is_in_the_pool_is_not_held_twice(deepstack: Parts, expected, state) -> None:
    engine = deepstack.engine(**TIGHT)
    for one in arriving(deepstack, expected, state):
        engine.add(one)
    while engine.has_work():
        engine.step()
        assert all(one.kv is None for one in engine._scheduler.running)
        assert all(one.kv is not None for one in engine._scheduler.waiting)
    assert engine.stats().preemptions > 0


def test_abort_of_a_waiting_or_running_one_spares_the_others(deepstack: Parts, expected, state) -> None:
    for steps in range(0, 30, 3):
        engine, run = deepstack.engine(**TIGHT), Run()
        for one in arriving(deepstack, expected, state):
            engine.add(one)
        for _ in range(steps):
            run.take(engine.step())
        engine.abort("1")
        while engine.has_work():
            run.take(engine.step())
        assert all(run.tokens[name] == expected(3)[1:] for name in "023")
        assert engine.stats().kv_blocks_used == 0


# What does not fit


def altered(kv: KVState, how: str) -> KVState:
    values = kv.keys_values
    return replace(
        kv,
        keys_values={
            "layers": lambda: values[:-1],
            "keys only": lambda: values[:, :1],
            "heads": lambda: values[:, :, :, :-1],
            "width": lambda: values[..., :-1],
            "dtype": values.half,
            "flat": values.flatten,
            "too short": lambda: values[:, :, :-1],
            "too long": lambda: torch.cat([values, values[:, :, :1]], dim=2),
        }[how](),
    )


@pytest.mark.parametrize("how", ["layers", "keys only", "heads", "width", "dtype", "flat", "too short", "too long"])
def test_keys_and_values_of_another_model_or_length_are_refused(parts: Parts, how: str) -> None:
    _, [good] = prefilled(parts.engine(), [parts.sequence("a", 8, [PICTURE])])
    assert good.kv is not None
    engine = parts.engine()
    wrong = altered(good.kv, how)
    with pytest.raises(EAServeError) as caught:
        engine.add(replace(good, kv=wrong))
    shape = parts.language.kv
    named = (
        ["must cover the whole prompt", str(wrong.tokens)]
        if how.startswith("too")
        else [str(tuple(wrong.keys_values.shape)), f"({shape.layers}, 2, tokens, ", str(wrong.keys_values.dtype)]
    )
    assert all(words in caught.value.message for words in named)
    assert not engine.has_work()
    assert drive(engine, [good]).tokens["a"], "the engine is none the worse"


def test_keys_and_values_without_a_produced_token_are_refused(qwen: Parts) -> None:
    _, [good] = prefilled(qwen.engine(), [qwen.sequence("a", 8)])
    with pytest.raises(EAServeError, match="0 produced"):
        qwen.engine().add(replace(good, produced=[]))


def test_numbers_that_are_none_in_what_is_handed_over_fail_that_sequence_alone(qwen: Parts) -> None:
    good = qwen.sequence("good", 9)
    _, [bad] = prefilled(qwen.engine(), [qwen.sequence("bad", 8, [PICTURE])])
    assert bad.kv is not None
    bad = replace(bad, kv=replace(bad.kv, keys_values=bad.kv.keys_values * float("nan")))
    engine = qwen.engine(block_size=4, kv_cache_tokens=64)
    for _ in range(2):
        run = drive(engine, [bad, good])
        assert list(run.failures) == ["bad"]
        assert run.tokens["good"] == alone(qwen, good)


# What fails on the way


def out_of_memory(*_: object) -> torch.Tensor:
    raise torch.OutOfMemoryError("no room for a copy")


def test_a_state_that_cannot_be_copied_out_fails_its_sequence(qwen: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = qwen.engine()
    engine.add(replace(qwen.sequence("a", 8), stop_after="prefill"))
    monkeypatch.setattr(KVCache, "read", out_of_memory)
    first, second = engine.step()
    assert isinstance(first, TokenOutput)
    assert isinstance(second, SequenceFailed)
    assert "OutOfMemoryError" in second.error.message
    assert engine.stats().kv_blocks_used == 0
    assert not engine.has_work()


def test_a_state_that_cannot_be_set_aside_fails_its_sequence(
    deepstack: Parts, expected, state, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = arriving(deepstack, expected, state)
    monkeypatch.setattr(KVCache, "read", out_of_memory)
    engine = deepstack.engine(**TIGHT)
    run = drive(engine, sequences)
    assert len(run.failures) == engine.stats().preemptions > 0
    assert "0" not in run.failures, "the oldest is never displaced"
    for one in sequences:
        assert run.tokens[one.id] == expected(3)[1 : 1 + len(run.tokens[one.id])]
        assert (one.id in run.failures) != bool(run.finished(one.id))
    assert engine.stats().kv_blocks_used == 0
