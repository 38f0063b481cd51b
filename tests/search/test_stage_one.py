"""Loads and pruning: right by hand where that can be worked out, and never dropping what a trial would find best."""

from __future__ import annotations

import pytest

from easerve.costs.base import ItemSize
from easerve.search.allocation import Allocation
from easerve.search.demand import Demand, Shape
from easerve.search.loads import LoadModel
from easerve.search.outcome import NOISE
from easerve.search.prune import TOLERATED, kept, prune
from easerve.search.space import Candidate, Space

from .cases import SEEDS, case, space
from .doubles import LinearCosts

SHAPE = Shape(2.0, ItemSize(1024, 256), 3000, 65)


def test_loads_of_three_pools_are_those_worked_out_by_hand() -> None:
    costs = LinearCosts(
        batch=0.1, patch_token=0.0, step_base=0.02, prompt_token=1e-4, sequence=0.002, context_token=0.0
    )
    model = LoadModel({1: costs}, Demand(SHAPE, rate=4.0, tpot=0.04))
    loads = model.loads(Candidate(Allocation("e-p-d", 2, 3, 1), 4, 1.0, "greedy"))
    assert loads["encode"] == pytest.approx(4.0 * 2.0 * (0.1 / 4) / 2)
    assert loads["prefill"] == pytest.approx(4.0 * (2 * 0.022 + 0.3) / 3)  # two steps for 3,000 tokens
    assert loads["decode"] == pytest.approx(4.0 * 64 * 0.04 / 10)  # ten sequences make a step of 40 ms


def test_local_prefill_takes_what_encode_leaves() -> None:
    costs = LinearCosts(
        batch=0.1, patch_token=0.0, step_base=0.0, prompt_token=1e-4, sequence=0.0, context_token=0.0, knee=0.5
    )
    model = LoadModel({1: costs}, Demand(SHAPE, rate=4.0))
    loads = model.loads(Candidate(Allocation("e-p-d", 2, 1, 1), 4, 0.25, "greedy"))
    busy = 4.0 * 2.0 * (0.1 / 2) / 2  # two items a request, and time to spare: batches of two
    share = model.times(1).safe_share(2)
    assert share == 0.5 and loads["encode"] == pytest.approx(busy / 2)  # in batches of four
    assert loads["local prefill"] == pytest.approx(3.0 * 0.3 / (2 * (1 - busy + busy * 0.5)))
    assert loads["prefill"] == pytest.approx(1.0 * 0.3)


def test_text_is_never_prefilled_beside_an_encoder() -> None:
    half = Shape(1.0, SHAPE.item, SHAPE.prompt_tokens, SHAPE.output_tokens, media_share=0.5)
    model = LoadModel({1: LinearCosts()}, Demand(half, rate=4.0))
    all_local = model.loads(Candidate(Allocation("e-p-d", 2, 1, 1), 4, 0.0, "greedy"))
    none = model.loads(Candidate(Allocation("e-p-d", 2, 1, 1), 4, 1.0, "greedy"))
    assert all_local["prefill"] == pytest.approx(none["prefill"] / 2)


def test_prefill_in_the_way_of_decode_makes_a_worker_of_both_do_less() -> None:
    """With an objective for TPOT, not without."""
    shape = Shape(0.0, ItemSize(0, 0), 2000, 65, media_share=0.0)
    both = Candidate(Allocation("e-pd", 1, 0, 2), 1, 1.0, "greedy")
    loads = {}
    for tpot in (0.04, None):
        model = LoadModel({1: LinearCosts(sequence=0.001)}, Demand(shape, rate=2.0, tpot=tpot))
        apart = model.loads(Candidate(Allocation("e-p-d", 1, 1, 1), 1, 1.0, "greedy"))
        loads[tpot] = model.loads(both)["prefill/decode"] / ((apart["prefill"] + apart["decode"]) / 2)
    assert loads[0.04] > 1.05
    assert loads[None] == pytest.approx(1.0)


def test_what_the_trials_find_best_is_never_dropped_and_half_of_the_rest_is() -> None:
    """To the noise of a trial, over twenty cost models near their knees; every allocation is tried."""
    for seed in SEEDS:
        model, trial = case(seed, load=0.9, most=600)
        everything = space(model)
        verdicts = prune(model, everything, trial.requests)
        alive = {one.allocation for one in kept(verdicts)}
        goodput = {one: trial(one, seed).goodput for one in everything}
        best = max(goodput.values())
        best_kept = max(value for one, value in goodput.items() if one.allocation in alive)
        assert best_kept >= (1 - NOISE) * best, f"case {seed}: {best_kept:.2f} of {best:.2f}"
        assert len(alive) <= len(verdicts) / 2, f"case {seed}: {len(alive)} of {len(verdicts)} are left"


def test_it_says_why_and_keeps_within_a_fifth_of_the_best() -> None:
    model, trial = case(4, 0.8)
    verdicts = prune(model, space(model), trial.requests)
    least = verdicts[0].balanced.load
    assert [one.balanced.load for one in verdicts] == sorted(one.balanced.load for one in verdicts)
    for one in verdicts:
        assert bool(one.dropped) == (one.balanced.load >= TOLERATED * least)
        assert not one.dropped or (one.balanced.bottleneck in one.dropped and "%" in one.dropped)


def test_what_is_too_slow_when_idle_is_dropped_for_that() -> None:
    """Two devices together are slower to serve many, and the only ones that are quick enough for one."""
    one = LinearCosts(step_base=0.001, prompt_token=1e-3)
    model = LoadModel({1: one, 2: one.over(2)}, Demand(SHAPE, rate=1.0, ttft=2.5))
    found = [Allocation("aggregated", 0, 0, 4), Allocation("aggregated", 0, 0, 2, 2)]
    verdicts = {verdict.allocation: verdict for verdict in prune(model, Space(found, frozenset()), 100)}
    assert "when idle" in verdicts[found[0]].dropped
    assert verdicts[found[0]].balanced.load < verdicts[found[1]].balanced.load
    assert not verdicts[found[1]].dropped
