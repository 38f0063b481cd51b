"""A sequence that cannot work is refused when it is added, or fails alone; others and the pool are unharmed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from easerve.engine.base import NewSequence
from easerve.errors import BadRequest, EAServeError
from easerve.models.base import Embedding
from easerve.request import SamplingParams
from tests.engine.helpers import GREEDY, WORDS, Parts, alone, drive

PICTURE = (64, 64)


def refused(parts: Parts, sequence: NewSequence) -> str:
    """The message with which the engine turns the sequence away."""
    engine = parts.engine()
    with pytest.raises(BadRequest) as caught:
        engine.add(sequence)
    assert not engine.has_work()
    return caught.value.message


def test_a_prompt_that_never_fits_the_pool_is_refused_with_the_numbers(qwen: Parts) -> None:
    engine = qwen.engine(kv_cache_tokens=32)
    with pytest.raises(BadRequest, match=r"32 tokens long.*the 32 that fit"):
        engine.add(NewSequence("a", (WORDS * 3)[:32], GREEDY))
    run = drive(engine, [NewSequence("a", (WORDS * 3)[:31], GREEDY)])
    assert run.finished("a") == "length"
    assert len(run.tokens["a"]) == 1


def test_a_prompt_longer_than_the_context_is_refused(qwen: Parts) -> None:
    engine = qwen.engine(max_model_len=20)
    assert engine.max_tokens_per_sequence == 20
    with pytest.raises(BadRequest, match="20 tokens long"):
        engine.add(NewSequence("a", WORDS[:20], GREEDY))


def test_output_is_clipped_at_the_context(qwen: Parts) -> None:
    run = drive(qwen.engine(max_model_len=20), [NewSequence("a", WORDS[:15], SamplingParams(max_tokens=99, seed=1))])
    assert len(run.tokens["a"]) == 5 or run.finished("a") == "stop"
    assert run.outputs["a"][-1].finish_reason is not None


def test_empty_prompts_and_foreign_token_ids_are_refused(qwen: Parts) -> None:
    assert "empty" in refused(qwen, NewSequence("a", [], GREEDY))
    assert "-1" in refused(qwen, NewSequence("a", [5, -1], GREEDY))
    assert "99999" in refused(qwen, NewSequence("a", [5, 99_999], GREEDY))
    assert "99999" in refused(qwen, NewSequence("a", [5], SamplingParams(stop_token_ids=(99_999,))))


@pytest.mark.parametrize("rows", [-1, 1], ids=["shorter", "longer"])
def test_an_embedding_that_does_not_match_its_placeholders_is_refused(parts: Parts, rows: int) -> None:
    good = parts.sequence("a", 8, [PICTURE])
    offset, embedding = good.media[0]
    values = torch.cat([embedding.values, embedding.values[:1]])[: embedding.values.shape[0] + rows]
    wrong = replace(good, media=[(offset, replace(embedding, values=values, deepstack=None))])
    assert "placeholders" in refused(parts, wrong)


def test_media_that_overlap_or_leave_the_prompt_are_refused(qwen: Parts) -> None:
    good = qwen.sequence("a", 8, [PICTURE, PICTURE])
    (first, embedding), _ = good.media
    assert "overlap" in refused(qwen, replace(good, media=[(first, embedding), (first + 1, embedding)]))
    assert "end of the prompt" in refused(qwen, replace(good, media=[(len(good.prompt) - 1, embedding)]))
    assert "placeholders" in refused(qwen, replace(good, media=[(first + 1, embedding)]))


def test_embeddings_of_a_wrong_shape_are_refused(deepstack: Parts) -> None:
    good = deepstack.sequence("a", 8, [PICTURE])
    offset, made = good.media[0]
    assert made.deepstack is not None
    for wrong in (
        Embedding(made.values[:, :-1], made.grid, made.deepstack),
        Embedding(made.values[0], made.grid),
        Embedding(made.values, made.grid, made.deepstack[:, :-1]),
    ):
        assert "shape" in refused(deepstack, replace(good, media=[(offset, wrong)]))


def test_an_id_in_use_is_refused_and_the_first_goes_on(qwen: Parts) -> None:
    engine = qwen.engine()
    engine.add(qwen.sequence("a", 8))
    with pytest.raises(EAServeError, match="'a'"):
        engine.add(qwen.sequence("a", 9))
    assert drive(engine, []).tokens["a"] == alone(qwen, qwen.sequence("a", 8))


@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
@pytest.mark.parametrize("budget", [8, 512])
def test_numbers_that_are_none_fail_one_sequence_and_never_reach_another(
    parts: Parts, poison: float, budget: int
) -> None:
    """Neither in the same step, nor through blocks that another sequence gets afterwards."""
    good = [parts.sequence("text", 11), parts.sequence("picture", 4, [PICTURE])]
    expected = {one.id: alone(parts, one) for one in good}
    bad = parts.sequence("bad", 7, [PICTURE])
    offset, made = bad.media[0]
    bad = replace(bad, media=[(offset, replace(made, values=made.values * poison))])
    engine = parts.engine(block_size=4, kv_cache_tokens=128, max_batched_tokens=budget)
    for _ in range(2):
        run = drive(engine, [good[0], bad, good[1]])
        assert run.tokens == expected
        assert isinstance(run.failures["bad"].error, EAServeError)
        assert engine.stats().kv_blocks_used == 0


@pytest.mark.parametrize("row", range(3))
def test_logits_that_are_no_numbers_fail_their_sequence_and_spare_the_rest_of_the_step(
    qwen: Parts, monkeypatch: pytest.MonkeyPatch, row: int
) -> None:
    """While decoding: what it said before stays said, then it fails once, and the others never notice."""
    drawn = SamplingParams(max_tokens=12, temperature=0.8, seed=4, ignore_eos=True)
    names = ["a", "b", "c"]
    sequences = [qwen.sequence(name, 5 + 3 * number, sampling=drawn) for number, name in enumerate(names)]
    expected = {one.id: alone(qwen, one) for one in sequences}
    sound, calls = qwen.language.logits, []

    def poisoned(hidden: torch.Tensor) -> torch.Tensor:
        calls.append(hidden)
        logits = sound(hidden)
        if len(calls) == 5:
            logits[row, 7] = float("nan")  # a single entry is enough
        return logits

    monkeypatch.setattr(qwen.language, "logits", poisoned)
    engine = qwen.engine()
    run = drive(engine, sequences)
    bad = names.pop(row)
    assert list(run.failures) == [bad]
    assert run.tokens[bad] == expected[bad][:4]
    assert {name: run.tokens[name] for name in names} == {name: expected[name] for name in names}
    assert engine.stats().kv_blocks_used == 0
