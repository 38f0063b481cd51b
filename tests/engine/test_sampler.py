"""How tokens are chosen: what each parameter allows, the distribution of what is left, and that draws depend on seed
and position alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.engine.base import NewSequence
from easerve.engine.torch import sampler
from easerve.engine.torch.sequence import Sequence
from easerve.request import SamplingParams
from tests.engine.helpers import Parts, alone, drive

VOCABULARY = 50
EOS = (49,)


def make(prompt: list[int] | None = None, output: list[int] | None = None, **params: Any) -> Sequence:
    prompt = prompt or [1, 2, 3]
    new = NewSequence("a", prompt, SamplingParams(**params))
    sequence = Sequence.of(new, torch.zeros(1, len(prompt), dtype=torch.long), len(prompt))
    sequence.tokens += output or []
    return sequence


def logits(seed: int = 0, rows: int = 1, scale: float = 2.0) -> torch.Tensor:
    return torch.randn(rows, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * scale


def draws(row: torch.Tensor, amount: int, **params: Any) -> list[int]:
    """Tokens drawn for as many seeds."""
    sequences = [make(seed=seed, **params) for seed in range(amount)]
    return sampler.sample(row.expand(amount, -1), sequences, EOS)


def chi_square(found: list[int], expected: torch.Tensor) -> float:
    """Standard deviations by which the chi-square statistic exceeds its mean; rare tokens share a bin."""
    counts = torch.bincount(torch.tensor(found), minlength=len(expected)).double()
    wanted = expected.double() * len(found)
    rare = wanted < 5
    observed = torch.cat([counts[~rare], counts[rare].sum()[None]])
    likely = torch.cat([wanted[~rare], wanted[rare].sum()[None].clamp_min(1e-9)])
    freedom = len(likely) - 1
    statistic = float(((observed - likely) ** 2 / likely).sum())
    return (statistic - freedom) / math.sqrt(2 * freedom)


# What is left to choose from


@given(seed=st.integers(0, 10**6), amount=st.integers(1, VOCABULARY + 5))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_top_k_keeps_the_k_most_likely(seed: int, amount: int) -> None:
    row = logits(seed)
    allowed = set(row[0].topk(min(amount, VOCABULARY)).indices.tolist())
    assert set(draws(row, 60, top_k=amount, temperature=3.0)) <= allowed


@given(seed=st.integers(0, 10**6), mass=st.floats(0.01, 0.99))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_top_p_keeps_the_smallest_set_of_that_mass(seed: int, mass: float) -> None:
    row = logits(seed)
    ordered = row[0].double().softmax(-1).sort(descending=True)
    needed = int((ordered.values.cumsum(-1) < mass - 1e-6).sum()) + 1
    assert set(draws(row, 60, top_p=mass)) <= set(ordered.indices[:needed].tolist())


def test_top_p_drops_nothing_that_belongs_to_the_mass() -> None:
    row = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    for mass, kept in ((0.3, 1), (0.5, 2), (0.65, 2), (0.75, 3), (0.95, 4), (1.0, 4)):
        assert int(sampler._restrict(row, [SamplingParams(top_p=mass)]).isfinite().sum()) == kept


def test_top_p_of_one_keeps_even_the_unlikeliest_beside_rows_with_less() -> None:
    left = sampler._restrict(logits(0, rows=2, scale=20.0), [SamplingParams(top_p=1.0), SamplingParams(top_p=0.5)])
    assert left[0].isfinite().all()
    assert not left[1].isfinite().all()


@given(seed=st.integers(0, 10**6), share=st.floats(0.01, 1.0))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_min_p_keeps_what_is_near_enough_to_the_most_likely(seed: int, share: float) -> None:
    row = logits(seed)
    chances = (row[0] / 1.5).softmax(-1)
    allowed = (chances >= share * chances.max() * (1 - 1e-5)).nonzero()[:, 0].tolist()
    assert set(draws(row, 60, min_p=share, temperature=1.5)) <= set(allowed)


@pytest.mark.parametrize("params", [{"top_k": 4}, {"top_p": 0.7}, {"min_p": 0.2}, {"top_k": 9, "top_p": 0.8}])
def test_every_allowed_token_occurs_in_proportion(params: dict[str, Any]) -> None:
    row = logits(3)
    left = sampler._restrict(row, [SamplingParams(**params)])
    assert 1 < int(left.isfinite().sum()) < VOCABULARY
    assert chi_square(draws(row, 4000, **params), left[0].softmax(-1)) < 4


def test_the_most_likely_token_survives_any_restriction() -> None:
    row = logits(5)
    assert set(draws(row, 50, top_p=1e-9)) == {int(row.argmax())}
    assert set(draws(row, 50, min_p=1.0)) == {int(row.argmax())}
    assert set(draws(row, 50, top_k=1)) == {int(row.argmax())}


def test_each_row_has_restrictions_of_its_own() -> None:
    row = logits(2)
    kinds: list[dict[str, Any]] = [{}, {"top_k": 2}, {"top_p": 0.3}, {"min_p": 0.5}, {"temperature": 0.0}, {"top_k": 7}]
    for seed in range(50):
        sequences = [make(seed=seed, **kind) for kind in kinds]
        together = sampler.sample(row.expand(len(kinds), -1), sequences, EOS)
        assert together == [sampler.sample(row, [one], EOS)[0] for one in sequences]


# The draw


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax_over_seeds(temperature: float) -> None:
    row = logits(1)
    assert chi_square(draws(row, 8000, temperature=temperature), (row[0] / temperature).softmax(-1)) < 4


def test_draws_follow_the_softmax_over_positions_of_one_seed() -> None:
    row = logits(1)
    sequences = [make(output=[7] * position, seed=12) for position in range(3000)]
    assert chi_square(sampler.sample(row.expand(3000, -1), sequences, EOS), row[0].softmax(-1)) < 4


def test_neighbouring_seeds_and_positions_are_independent() -> None:
    """Pairs of draws from a flat row are flat over all pairs."""
    flat = torch.zeros(1, 8)
    for step in ({"seed": 1}, {"position": 1}):
        first = [make(output=[0] * (n % 40), seed=n // 40) for n in range(6400)]
        second = [
            make(output=[0] * (n % 40 + step.get("position", 0)), seed=n // 40 + step.get("seed", 0))
            for n in range(6400)
        ]
        tokens = [sampler.sample(flat.expand(6400, -1), each, ()) for each in (first, second)]
        pairs = [8 * left + right for left, right in zip(*tokens, strict=True)]
        assert chi_square(pairs, torch.full((64,), 1 / 64)) < 4


def test_hash_of_a_tensor_is_the_hash_of_its_numbers() -> None:
    """Wrapping products and logical shifts on signed integers: what a draw is must not depend on the device."""
    words = [0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF, *(pow(7, n, 2**64) for n in range(60, 90))]
    mixed = sampler._mix(torch.tensor([sampler._signed(word) for word in words]))
    assert mixed.tolist() == [sampler._signed(sampler._mix_int(word)) for word in words]


def test_first_words_of_splitmix64() -> None:
    """Against the published reference's first outputs for seed 1234567."""
    states = [(1234567 + n * sampler._STEP) % 2**64 for n in (1, 2, 3)]
    assert [sampler._mix_int(state) for state in states] == [
        6457827717110365317, 3203168211198807973, 9817491932198370423,
    ]  # fmt: skip


def test_draws_do_not_depend_on_the_rows_around() -> None:
    row = logits(4)
    own = [sampler.sample(row, [make(seed=seed)], EOS)[0] for seed in range(20)]
    others = logits(9, rows=6)
    for seed in range(20):
        crowd = [make(seed=seed + 100, temperature=0.3), *(make(seed=n) for n in range(5))]
        batch = torch.cat([others[:3], row, others[3:]])
        assert sampler.sample(batch, [*crowd[:3], make(seed=seed), *crowd[3:]], EOS)[3] == own[seed]


def test_same_seed_same_answer_other_seed_other_answer(qwen: Parts) -> None:
    def answer(seed: int) -> list[int]:
        params = SamplingParams(max_tokens=20, temperature=1.5, seed=seed, ignore_eos=True)
        return alone(qwen, qwen.sequence("a", 9, sampling=params))

    assert answer(5) == answer(5)
    assert len({tuple(answer(seed)) for seed in (0, 1, 2, -1, 2**62, 2**63 - 1)}) == 6


def test_temperature_near_zero_is_greedy() -> None:
    row = logits(6) * 1e4
    assert draws(row, 5, temperature=1e-30) == draws(row, 5, temperature=0.0) == [int(row.argmax())] * 5


# Penalties, against plain loops


def plain_penalties(row: list[float], sequence: Sequence) -> list[float]:
    params, prompt = sequence.sampling, sequence.tokens[: sequence.prompt_length]
    out = list(row)
    for token in range(len(row)):
        if token in prompt or token in sequence.output:
            out[token] = (
                out[token] / params.repetition_penalty if out[token] > 0 else out[token] * params.repetition_penalty
            )
        count = sequence.output.count(token)
        out[token] -= params.frequency_penalty * count
        out[token] -= params.presence_penalty * (count > 0)
    return out


TOKENS = st.lists(st.integers(0, VOCABULARY - 1), max_size=12)


@given(
    seed=st.integers(0, 1000),
    rows=st.lists(
        st.tuples(
            TOKENS, TOKENS, st.sampled_from([0.5, 1.0, 1.3]), st.floats(-2, 2), st.sampled_from([-1.0, 0.0, 0.7])
        ),
        min_size=1,
        max_size=5,
    ),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_penalties_equal_a_plain_reference(seed: int, rows: list[Any]) -> None:
    sequences = [
        make(
            [4, *prompt], output, repetition_penalty=repetition, presence_penalty=presence, frequency_penalty=frequency
        )
        for prompt, output, repetition, presence, frequency in rows
    ]
    scores = logits(seed, len(rows))
    expected = torch.tensor([plain_penalties(*each) for each in zip(scores.tolist(), sequences, strict=True)])
    sampler._penalise(scores, sequences)
    torch.testing.assert_close(scores, expected)


def test_penalties_reach_greedy_choices_too() -> None:
    row = torch.zeros(1, VOCABULARY)
    row[0, 7], row[0, 8] = 3.0, 2.0
    assert sampler.sample(row, [make(temperature=0.0)], EOS) == [7]
    assert sampler.sample(row, [make(output=[7], temperature=0.0, presence_penalty=1.5)], EOS) == [8]
    assert sampler.sample(row, [make([7], temperature=0.0, presence_penalty=1.5)], EOS) == [7]
    assert sampler.sample(row, [make([7], temperature=0.0, repetition_penalty=2.0)], EOS) == [8]


# Log-probabilities


def test_logprobs_are_of_the_raw_logits() -> None:
    rows = logits(8, 4)
    before = rows.clone()
    params: list[dict[str, Any]] = [
        {"logprobs": 3, "temperature": 0.3, "top_k": 2}, {"logprobs": None},
        {"logprobs": 0, "repetition_penalty": 1.8}, {"logprobs": 200},
    ]  # fmt: skip
    sequences = [make(**one) for one in params]
    tokens = sampler.sample(rows, sequences, EOS)
    found = sampler.logprobs(rows, sequences, tokens)
    assert torch.equal(rows, before)
    assert found[1] is None
    for row, amount in ((0, 3), (2, 0), (3, VOCABULARY)):
        every = rows[row].log_softmax(-1)
        scored = found[row]
        assert scored is not None
        assert scored.chosen == pytest.approx(float(every[tokens[row]]), abs=1e-6)
        assert [token for token, _ in scored.top] == every.topk(amount).indices.tolist()
        assert [value for _, value in scored.top] == pytest.approx(every.topk(amount).values.tolist(), abs=1e-6)


def test_every_output_carries_the_logprobs_asked_for(qwen: Parts) -> None:
    params = SamplingParams(max_tokens=6, temperature=0.0, logprobs=2)
    for output in drive(qwen.engine(), [qwen.sequence("a", 9, sampling=params)]).outputs["a"]:
        assert output.logprobs is not None
        assert output.logprobs.top[0] == (output.token_id, output.logprobs.chosen)


# Ends


def test_min_tokens_holds_back_eos_and_stop_ids() -> None:
    row = torch.zeros(1, VOCABULARY)
    row[0, 49], row[0, 30], row[0, 12] = 9.0, 8.0, 7.0
    for temperature in (0.0, 0.05):
        early = make(output=[5], min_tokens=2, stop_token_ids=(30,), temperature=temperature)
        due = make(output=[5, 5], min_tokens=2, stop_token_ids=(30,), temperature=temperature)
        assert sampler.sample(row.expand(2, -1), [early, due], EOS) == [12, 49]


def answer_of(parts: Parts) -> list[int]:
    return alone(
        parts, parts.sequence("a", 9, sampling=SamplingParams(max_tokens=10, temperature=0.0, ignore_eos=True))
    )


def test_stop_ids_end_a_sequence_and_are_named(qwen: Parts) -> None:
    answer = answer_of(qwen)
    stop = answer[4]
    params = SamplingParams(max_tokens=10, temperature=0.0, stop_token_ids=(stop,))
    run = drive(qwen.engine(), [qwen.sequence("a", 9, sampling=params)])
    assert run.tokens["a"] == answer[: answer.index(stop) + 1]
    last = run.outputs["a"][-1]
    assert (last.finish_reason, last.stop_token) == ("stop", stop)
    assert all(one.finish_reason is None and one.stop_token is None for one in run.outputs["a"][:-1])


def test_eos_ends_a_sequence_unless_ignored(qwen: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = answer_of(qwen)
    eos = answer[3]
    monkeypatch.setattr(qwen.language, "eos_token_ids", (eos, 10**6))  # the second is no token of this model
    run = drive(
        qwen.engine(),
        [
            qwen.sequence("stops", 9, sampling=SamplingParams(max_tokens=10, temperature=0.0)),
            qwen.sequence("ignores", 9, sampling=SamplingParams(max_tokens=10, temperature=0.0, ignore_eos=True)),
            qwen.sequence("waits", 9, sampling=SamplingParams(max_tokens=10, temperature=0.0, min_tokens=9)),
        ],
    )
    assert run.tokens["stops"] == answer[: answer.index(eos) + 1]
    assert run.finished("stops") == "stop"
    assert run.tokens["ignores"] == answer
    assert run.finished("ignores") == "length"
    assert eos not in run.tokens["waits"][:9]
    assert len(run.tokens["waits"]) == 10


def test_max_tokens_ends_with_length(qwen: Parts) -> None:
    params = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)
    run = drive(qwen.engine(), [qwen.sequence("a", 9, sampling=params)])
    assert len(run.tokens["a"]) == 1
    assert run.finished("a") == "length"
