"""A sequence that another engine began goes on here as if nothing had happened: same tokens, same end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from easerve.engine.base import NewSequence
from easerve.errors import BadRequest, EAServeError
from easerve.request import SamplingParams
from tests.engine.helpers import GREEDY, WORDS, Parts, Run, alone, drive, load_parts, mixed

COUNTED: dict[str, Any] = {
    "max_tokens": 14,
    "min_tokens": 6,
    "temperature": 0.9,
    "top_p": 0.95,
    "seed": 5,
    "repetition_penalty": 1.3,
    "frequency_penalty": 0.4,
    "presence_penalty": 0.2,
}


def cut_everywhere(sequence: NewSequence, tokens: list[int]) -> list[NewSequence]:
    return [replace(sequence, id=f"{sequence.id}/{cut}", produced=tokens[:cut]) for cut in range(len(tokens))]


def assert_resumes_anywhere(parts: Parts, sequences: list[NewSequence], **options: int) -> None:
    whole = drive(parts.engine(), sequences)
    engine = parts.engine(**options)
    cuts = [cut for one in sequences for cut in cut_everywhere(one, whole.tokens[one.id])]
    run = drive(engine, cuts)
    for one in cuts:
        assert_continues(run, one, whole, one.id.split("/")[0])
    assert engine.stats().kv_blocks_used == 0


def assert_continues(run: Run, cut: NewSequence, whole: Run, name: str) -> None:
    done = len(cut.produced)
    assert run.tokens[cut.id] == whole.tokens[name][done:]
    last, expected = run.outputs[cut.id][-1], whole.outputs[name][-1]
    assert (last.finish_reason, last.stop_token) == (expected.finish_reason, expected.stop_token)
    assert [one.times is not None for one in run.outputs[cut.id]] == [True] + [False] * (len(run.tokens[cut.id]) - 1)


@pytest.mark.parametrize("budget", [11, 512])
def test_resumed_after_any_token_equals_uninterrupted(parts: Parts, budget: int) -> None:
    assert_resumes_anywhere(parts, mixed(parts), max_batched_tokens=budget)


def test_resumed_on_the_builtin_model_equals_uninterrupted(builtin: Path) -> None:
    parts = load_parts(builtin)
    drawn = SamplingParams(max_tokens=10, temperature=1.0, seed=3, ignore_eos=True)
    assert_resumes_anywhere(parts, [parts.sequence("a", 10, [(112, 112)]), parts.sequence("b", 8, [(60, 90)], drawn)])


def test_everything_that_counts_output_counts_what_was_produced(qwen: Parts) -> None:
    """Limits, `min_tokens`, penalties and stop tokens; among the cuts are some before and some after `min_tokens`."""
    counted = qwen.sequence("counted", 9, [(64, 64)], SamplingParams(**COUNTED))
    tokens = alone(qwen, counted)
    late, early = (next(t for i, t in enumerate(tokens) if i >= least and t not in tokens[:i]) for least in (9, 2))
    sequences = [
        counted,
        replace(counted, id="late", sampling=SamplingParams(**COUNTED, stop_token_ids=(late,))),
        replace(counted, id="early", sampling=SamplingParams(**COUNTED, stop_token_ids=(early,))),
    ]
    whole = drive(qwen.engine(), sequences)
    assert whole.outputs["late"][-1].stop_token == late
    assert whole.tokens["early"][:6] != tokens[:6], "min_tokens forbids nothing here; choose another seed"
    assert_resumes_anywhere(qwen, sequences)


def test_resumed_sequences_survive_preemption(deepstack: Parts) -> None:
    sampling = SamplingParams(max_tokens=20, temperature=0.9, seed=2, ignore_eos=True)
    sequence = deepstack.sequence("a", 6, [(64, 64)], sampling)
    tokens = alone(deepstack, sequence)
    engine = deepstack.engine(block_size=4, kv_cache_tokens=68, max_batched_tokens=16)
    run = drive(engine, cut_everywhere(sequence, tokens))
    assert engine.stats().preemptions > 0
    assert run.tokens == {f"a/{cut}": tokens[cut:] for cut in range(len(tokens))}


def test_context_limits_count_what_was_produced(qwen: Parts) -> None:
    engine = qwen.engine(max_model_len=20)
    greedy = SamplingParams(max_tokens=99, temperature=0.0, ignore_eos=True)
    run = drive(engine, [NewSequence("a", WORDS[:12], greedy, produced=WORDS[:5])])
    assert (len(run.tokens["a"]), run.finished("a")) == (3, "length")
    with pytest.raises(BadRequest, match=r"12 tokens long and 8 of output so far.*the 20 that fit"):
        engine.add(NewSequence("a", WORDS[:12], greedy, produced=WORDS[:8]))


def test_what_leaves_nothing_to_generate_is_refused(qwen: Parts) -> None:
    engine = qwen.engine()
    eos = qwen.language.eos_token_ids[0]
    for produced, words in (
        (WORDS[:12], "max_tokens is 12: nothing is left"),
        ([5, eos, 6], f"ended with token {eos} already"),
        ([5, 99_999], "99999"),
    ):
        with pytest.raises(EAServeError, match=words):
            engine.add(NewSequence("a", WORDS, GREEDY, produced=produced))
    assert not engine.has_work()
