"""vLLM says what the torch engine says, token for token; what goes wrong with one sequence touches no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from easerve.builtin import scenes
from easerve.engine.base import NewSequence
from easerve.engine.torch.engine import TorchEncoder
from easerve.errors import BadRequest, EAServeError
from easerve.models.base import Embedding
from easerve.request import SamplingParams
from tests.engine.helpers import WORDS, Parts, Run, drive

from .engines import vllm_engine

QUESTIONS = scenes.held_out("one", 18, 5) + scenes.held_out("two", 12, 5) + scenes.held_out("sum", 6, 5)
LONG = SamplingParams(max_tokens=40, temperature=0.0, ignore_eos=True)
DRAWN = SamplingParams(max_tokens=30, temperature=0.9, top_p=0.95, top_k=50, min_p=0.01, seed=11, ignore_eos=True)


@pytest.fixture(scope="session")
def engine(builtin: Parts) -> Any:
    return vllm_engine(builtin, blocks=24)


@pytest.fixture(autouse=True)
def _nothing_is_left(request: pytest.FixtureRequest) -> Any:
    engine = request.getfixturevalue("engine")
    yield
    assert not engine.has_work()
    stats = engine.stats()
    assert (stats.running, stats.waiting, stats.kv_blocks_used, stats.pending_tokens) == (0, 0, 0, 0)


def questions(parts: Parts) -> list[NewSequence]:
    """As the front end would ask them, each embedding with its content key."""
    import numpy as np

    tokenizer: Any = AutoTokenizer.from_pretrained(parts.folder)
    encoder, made = TorchEncoder(parts.encoder), []
    for number, example in enumerate(QUESTIONS):
        content = [{"type": "image"} for _ in example.pictures] + [{"type": "text", "text": example.question}]
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, return_dict=False
        )
        pixels = [np.asarray(picture) for picture in example.pictures]
        embeddings = iter(encoder.encode(pixels) if pixels else [])
        keys = iter(str(hash(picture.tobytes())) for picture in pixels)
        prompt: list[int] = []
        media: list[tuple[int, Embedding]] = []
        for token in ids:
            if token == parts.family.image_token_id:
                media.append((len(prompt), replace(next(embeddings), key=next(keys))))
                prompt += [token] * len(media[-1][1].values)
            else:
                prompt.append(token)
        made.append(NewSequence(str(number), prompt, SamplingParams(max_tokens=64, temperature=0.0), media))
    return made


def test_the_same_answers_as_the_torch_engine(builtin: Parts, engine: Any) -> None:
    asked = questions(builtin)
    expected = drive(builtin.engine(), asked)
    arrivals = {one.id: index // 3 for index, one in enumerate(asked)}
    got = drive(engine, asked, arrivals)
    assert got.tokens == expected.tokens
    assert {name: got.finished(name) for name in got.tokens} == dict.fromkeys(expected.tokens, "stop")
    assert [output.times is not None for output in got.outputs["0"]][:2] == [True, False]
    again = drive(engine, asked)  # now from vLLM's caches of prefixes and embeddings
    assert again.tokens == expected.tokens


def test_repeated_and_adjacent_pictures_keep_their_places(builtin: Parts, engine: Any) -> None:
    small, large = (60, 90), (112, 112)
    orders = {"same": [small, small], "swapped": [large, small], "three": [small, large, small], "one": [large]}
    asked = [builtin.sequence(name, 8, sizes, LONG, between=0) for name, sizes in orders.items()]
    keyed = [replace(one, media=[(at, replace(e, key=str(e.grid))) for at, e in one.media]) for one in asked]
    assert drive(engine, keyed).tokens == drive(builtin.engine(), asked).tokens


@pytest.mark.parametrize(
    "params",
    [
        {"repetition_penalty": 1.7},
        {"presence_penalty": 1.5},
        {"frequency_penalty": 0.8, "presence_penalty": 0.2},
        {"min_tokens": 5, "ignore_eos": False, "max_tokens": 9},
        {"max_tokens": 1},
        {"temperature": 1.0, "top_k": 1, "seed": 5},
        {"logprobs": 3, "max_tokens": 5},
    ],
    ids=str,
)
def test_sampling_parameters_mean_the_same(builtin: Parts, engine: Any, params: dict[str, Any]) -> None:
    sampling = SamplingParams(**{"max_tokens": 24, "temperature": 0.0, "ignore_eos": True} | params)
    asked = [builtin.sequence("text", 9, (), sampling), builtin.sequence("picture", 7, [(64, 64)], sampling)]
    expected, got = drive(builtin.engine(), asked), drive(engine, asked)
    assert got.tokens == expected.tokens
    for name in expected.outputs:
        assert got.finished(name) == expected.finished(name)
        for ours, theirs in zip(got.outputs[name], expected.outputs[name], strict=True):
            assert (ours.logprobs is None) == (theirs.logprobs is None)
            if ours.logprobs and theirs.logprobs:
                assert ours.logprobs.chosen == pytest.approx(theirs.logprobs.chosen, abs=1e-3)
                assert [token for token, _ in ours.logprobs.top] == [token for token, _ in theirs.logprobs.top]


def test_stop_tokens_end_it_and_are_named(builtin: Parts, engine: Any) -> None:
    free = drive(engine, [builtin.sequence("free", 9, (), LONG)]).tokens["free"]
    stop = next(token for token in free[2:] if token not in free[:2])
    run = drive(engine, [builtin.sequence("stopped", 9, (), replace_params(LONG, stop_token_ids=(stop,)))])
    assert run.tokens["stopped"] == free[: free.index(stop) + 1]
    assert run.outputs["stopped"][-1].stop_token == stop


def test_draws_are_the_torch_engine_s(builtin: Parts, engine: Any) -> None:
    """Also of a prompt that is prefilled in parts, among greedy ones, and with every way to restrict the choice."""
    hot = replace_params(DRAWN, temperature=2.0, top_p=1.0, top_k=0, min_p=0.0)
    choices: list[dict[str, Any]] = [{}, {"top_k": 9}, {"top_p": 0.9}, {"min_p": 0.1}, {"repetition_penalty": 1.3}]
    choices += [{"frequency_penalty": 0.4}, {"min_tokens": 20, "ignore_eos": False}, {"temperature": 0.0}]
    asked = [
        builtin.sequence(str(n), 8 + n, [(64, 64)], replace_params(hot, seed=n - 4, **choice))
        for n, choice in enumerate(choices)
    ]
    asked += [NewSequence("in parts", WORDS * 7, hot), builtin.sequence("all of it", 9, [(64, 64)], DRAWN)]
    expected = drive(builtin.engine(), asked).tokens
    assert all(len(set(expected[str(n)])) > 4 for n in range(7))  # the last is greedy
    got = drive(engine, asked, {"3": 4, "in parts": 2, "5": 9})
    assert got.tokens == expected


def test_draws_belong_to_the_seed_and_not_to_the_batch(builtin: Parts, engine: Any) -> None:
    asked = builtin.sequence("drawn", 9, [(64, 64)], DRAWN)
    alone = drive(engine, [asked]).tokens["drawn"]
    crowd = [builtin.sequence(str(n), 5 + n, (), replace_params(DRAWN, seed=n)) for n in range(6)]
    assert drive(engine, [*crowd, asked]).tokens["drawn"] == alone
    other = replace(asked, sampling=replace_params(DRAWN, seed=12))
    assert drive(engine, [other]).tokens["drawn"] != alone


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"repetition_penalty": 1.4},
        {"frequency_penalty": 0.7},
        {"temperature": 2.0, "seed": 3},
        {"temperature": 1.8, "seed": 2**62, "top_p": 0.9, "frequency_penalty": 0.7},
    ],
    ids=str,
)
def test_a_resumed_sequence_says_what_it_would_have_said(builtin: Parts, engine: Any, params: dict[str, Any]) -> None:
    sampling = replace_params(LONG, min_tokens=20, ignore_eos=False, **params)
    whole = [builtin.sequence("text", 9, (), sampling), builtin.sequence("picture", 7, [(64, 64)], sampling)]
    expected = drive(engine, whole)
    for done in (1, 7, 19):
        resumed = drive(engine, [replace(one, produced=expected.tokens[one.id][:done]) for one in whole])
        for name in expected.tokens:
            assert resumed.tokens[name] == expected.tokens[name][done:]
            assert resumed.finished(name) == expected.finished(name)


def test_when_the_pool_is_full_sequences_give_way_and_end_as_ever(builtin: Parts, engine: Any) -> None:
    kinds = [replace_params(LONG, max_tokens=120, temperature=heat, seed=5) for heat in (0.0, 0.0, 2.0)]
    asked = [builtin.sequence(str(n), 20 + n, [(64, 64)][: n % 2], kinds[n % 3]) for n in range(12)]
    before = engine.stats().preemptions
    got = drive(engine, asked)
    assert engine.stats().preemptions > before
    assert got.tokens == drive(builtin.engine(), asked).tokens


def test_abort_frees_at_once_and_touches_nobody_else(builtin: Parts, engine: Any) -> None:
    asked = [builtin.sequence(str(n), 12 + n, [(64, 64)][: n % 2], LONG) for n in range(20)]
    expected = drive(engine, asked).tokens
    run = Run()
    for one in asked:
        engine.add(one)
    for _ in range(3):
        run.take(engine.step())
    assert engine.stats().waiting > 0
    gone = {"1", "4", "18", "19"}  # running and waiting
    for name in gone:
        engine.abort(name)
    engine.abort("nobody")
    while engine.has_work():
        events = engine.step()
        assert gone.isdisjoint(event.sequence_id for event in events)
        run.take(events)
    assert {name: run.tokens[name] for name in expected if name not in gone} == {
        name: tokens for name, tokens in expected.items() if name not in gone
    }


def test_what_cannot_be_served_is_refused_and_the_rest_goes_on(builtin: Parts, engine: Any) -> None:
    good = builtin.sequence("good", 9, [(64, 64)], LONG)
    offset, embedding = good.media[0]
    narrow = replace(embedding, values=embedding.values[:, :-1])
    short = replace(embedding, values=embedding.values[:-1])
    bad: list[tuple[NewSequence, type[Exception]]] = [
        (replace(good, id="narrow", media=[(offset, narrow)]), BadRequest),
        (replace(good, id="short", media=[(offset, short)]), BadRequest),
        (good, EAServeError),  # its id twice
        (NewSequence("empty", [], LONG), BadRequest),
        (NewSequence("long", WORDS * 60, LONG), BadRequest),
        (NewSequence("unknown token", [10**6], LONG), BadRequest),
        (replace(good, id="top_p", sampling=replace_params(LONG, temperature=1.0, top_p=7.0)), BadRequest),
    ]
    expected = drive(engine, [good]).tokens
    engine.add(good)
    for sequence, error in bad:
        with pytest.raises(error):
            engine.add(sequence)
    run = Run()
    while engine.has_work():
        run.take(engine.step())
    assert run.tokens == expected


def test_a_step_that_raises_fails_its_cause_only(builtin: Parts, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [builtin.sequence(str(n), 12 + n, [(64, 64)][: n % 2], LONG) for n in range(5)]
    expected = drive(engine, asked).tokens
    last = {"1": 6, "2": 8}  # tokens they get to; the second's time comes while the first is looked for
    _break(engine, monkeypatch, lambda progress: len(progress.tokens) == last.get(progress.sequence.id))
    late = builtin.sequence("late", 15, (), LONG)
    got = drive(engine, [*asked, late], {"late": 8})
    assert set(got.failures) == set(last)
    for name, tokens in (expected | drive(engine, [late]).tokens).items():
        assert got.tokens[name] == tokens[: last.get(name)]
    assert "OutOfMemoryError" in got.failures["1"].error.message


def test_abort_ends_what_is_tried_alone_and_what_waits_meanwhile(
    builtin: Parts, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [builtin.sequence(str(n), 12 + n, (), LONG) for n in range(4)]
    expected = drive(engine, asked).tokens
    faults = iter([True])
    _break(engine, monkeypatch, lambda progress: len(progress.tokens) == 2 and next(faults, False))
    run = Run()
    for one in asked:
        engine.add(one)
    while not engine._quarantine.active:
        run.take(engine.step())
    engine.add(builtin.sequence("late", 9, (), LONG))
    engine.abort("0")  # the next to be tried
    run.take(engine.step())
    for name in ("1", "2", "late"):  # passed, tried next, waiting
        engine.abort(name)
    while engine.has_work():
        run.take(engine.step())
    assert run.tokens["3"] == expected["3"]


def test_after_a_fault_that_passes_everybody_ends_as_ever(
    builtin: Parts, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [builtin.sequence(str(n), 12 + n, [(64, 64)][: n % 2], LONG) for n in range(5)]
    expected = drive(engine, asked).tokens
    faults = iter([True])
    _break(engine, monkeypatch, lambda progress: len(progress.tokens) == 9 and next(faults, False))
    got = drive(engine, asked)
    assert got.tokens == expected
    assert not got.failures


def _break(engine: Any, patch: pytest.MonkeyPatch, when: Callable[[Any], bool]) -> None:
    """Have vLLM's executor run out of memory in a step of whom `when` says so."""
    executor = engine._core._client.engine_core.model_executor
    sound = executor.execute_model

    def failing(scheduled: Any, *rest: Any, **named: Any) -> Any:
        inside = [engine._inside[name] for name in scheduled.num_scheduled_tokens if name in engine._inside]
        if sum(when(progress) for progress in inside):
            raise torch.OutOfMemoryError("the device is full")
        return sound(scheduled, *rest, **named)

    patch.setattr(executor, "execute_model", failing)


def replace_params(params: SamplingParams, **changed: Any) -> SamplingParams:
    from msgspec.structs import replace as changed_struct

    return changed_struct(params, **changed)
