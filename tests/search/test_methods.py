"""HAS finds what trying everything finds; the methods it is compared with do what their names say."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from easerve.search.explore import explore, finals
from easerve.search.methods import METHODS, Method, Proposals, Search
from easerve.search.outcome import Outcome, rank
from easerve.search.prune import kept, prune
from easerve.search.space import Candidate, Space
from easerve.search.stopping import TRIALS, StopRules
from easerve.search.tuning import NEVER, tune

from .cases import SEEDS, case, space


def test_has_finds_the_best_within_thirty_trials() -> None:
    """At least 99 % of what is chosen when everything is tried, over twenty cost models; with its stop rules, within
    the noise of a trial in all of them."""
    shares, stopped = [], []
    for seed in SEEDS:
        model, trial = case(seed, load=1.0, most=200)
        wide = replace(space(model), batches=(1, 2, 4, 8), ratios=(0.2, 0.4, 0.6, 0.8, 1.0))
        starts = kept(prune(model, wide, trial.requests))
        narrow = wide.within([one.allocation for one in starts])
        known = {one: trial(one, 0) for one in narrow}
        best = known[max(known, key=lambda one: rank(known[one], "goodput"))].goodput
        for found, settled in ((shares, NEVER), (stopped, 6)):
            rules = StopRules(TRIALS, settled=settled, stalled=NEVER if settled == NEVER else 8, starts=len(starts))
            proposals = METHODS["has"](Search(narrow, starts, "goodput", seed))
            tried, _ = explore(proposals, lambda one, _: known[one], 0, rules, "goodput", lambda one: None)  # noqa: B023
            assert len(tried) <= TRIALS
            found.append(max(tried, key=lambda one: rank(one.outcome, "goodput")).outcome.goodput / best)
    assert min(shares) >= 0.99, shares
    assert min(stopped) >= 0.97, stopped


@pytest.mark.parametrize("method", METHODS)
def test_no_candidate_is_proposed_twice_and_all_come_from_the_space(method: Method) -> None:
    model, trial = case(3, load=1.0)
    verdicts = prune(model, space(model), trial.requests)
    starts = kept(verdicts)
    everything = space(model).within([one.allocation for one in starts])
    rng = random.Random(1)
    proposals = METHODS[method](Search(everything, starts, "goodput", 1))
    tried, reason = explore(
        proposals, lambda one, seed: Outcome(rng.random(), 1, 1, 1), 0, StopRules(NEVER, NEVER, NEVER), "goodput",
        lambda one: None,
    )  # fmt: skip
    proposed = [one.candidate for one in tried]
    assert len(proposed) == len(set(proposed)) and set(proposed) <= set(everything)
    assert reason == "everything was tried"
    assert method == "coordinate" or set(proposed) == set(everything)


def test_has_begins_where_the_loads_are_balanced() -> None:
    model, trial = case(0, load=0.9)
    everything = space(model)
    verdicts = prune(model, everything, trial.requests)
    found = tune("has", everything, verdicts, trial, "goodput", trials=8)
    starts = kept(verdicts)
    assert [one.candidate for one in found.tried][: len(starts)] == starts


def test_coordinate_stops_where_no_single_change_helps() -> None:
    """A ridge along which two settings would have to change together: it ends beside the top."""
    model, _ = case(0, load=0.9)
    narrow = Space([space(model).allocations[0]], frozenset(), batches=(1, 2, 4, 8), rules=("greedy", "gap"))

    def trial(one: Candidate, seed: int) -> Outcome:
        height = {(8, "gap"): 9.0, (4, "greedy"): 5.0}.get((one.batch, one.rule), 1.0 / one.batch)
        return Outcome(height, 1, 1, 1)

    tried, _ = explore(
        METHODS["coordinate"](Search(narrow, [], "goodput")), trial, 0, StopRules(), "goodput", lambda one: None
    )
    assert max(one.outcome.goodput for one in tried) == 5.0
    assert len(tried) < len(list(narrow))


def test_finalists_run_again_on_seeds_that_they_were_not_chosen_by() -> None:
    """The luckiest of the trials does not win."""
    model, _ = case(0, load=0.9)
    candidates = list(space(model))[:5]
    seeds = []

    def trial(one: Candidate, seed: int) -> Outcome:
        seeds.append(seed)
        lucky = 100.0 if one == candidates[2] and seed == 7 else 0.0
        return Outcome(10.0 - candidates.index(one) + lucky, 1, 1, 1)

    tried, _ = explore(iter_of(candidates), trial, 7, StopRules(), "goodput", lambda one: None)
    again = finals(tried, trial, 7, "goodput", lambda one: None)
    assert [one.candidate for one in again] == [candidates[0], candidates[1], candidates[2]]
    assert seeds == [7] * 5 + [8, 9] * 3


def iter_of(candidates: list[Candidate]) -> Proposals:
    for one in candidates:  # noqa: UP028
        yield one
