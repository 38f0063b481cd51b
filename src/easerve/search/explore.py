"""A search from its first trial to its winner: the second stage of HAS, and the same for what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from easerve.search.methods import Proposals
from easerve.search.outcome import Objective, Outcome, Trial
from easerve.search.space import Candidate
from easerve.search.stopping import StopRules, best_first

FINALISTS = 3
FRESH_SEEDS = 2  # on which each finalist runs again


@dataclass(frozen=True)
class Tried:
    """A candidate and what its trial, or the mean of its trials, came to."""

    candidate: Candidate
    outcome: Outcome


Watch = Callable[[Tried], None]  # told of every trial


def explore(
    proposals: Proposals, trial: Trial, seed: int, rules: StopRules, objective: Objective, watch: Watch
) -> tuple[list[Tried], str]:
    """The trials in their order, and why there are no more. All on one seed, so that they differ in the candidate."""
    tried: list[Tried] = []
    reason = "everything was tried"
    candidate = next(proposals, None)
    while candidate is not None:
        tried.append(Tried(candidate, trial(candidate, seed)))
        watch(tried[-1])
        if reason_now := rules.reason([one.outcome for one in tried], objective):
            return tried, reason_now
        try:
            candidate = proposals.send(tried[-1].outcome)
        except StopIteration:
            candidate = None
    return tried, reason


def finals(tried: Sequence[Tried], trial: Trial, seed: int, objective: Objective, watch: Watch) -> list[Tried]:
    """The best few again, on seeds that they were not chosen by: the best of many trials was also lucky.

    Means over the fresh seeds alone, best first.
    """
    places = best_first([one.outcome for one in tried], objective)[:FINALISTS]
    again = [_again(tried[place].candidate, trial, seed, watch) for place in places]
    return [again[place] for place in best_first([one.outcome for one in again], objective)]


def _again(candidate: Candidate, trial: Trial, seed: int, watch: Watch) -> Tried:
    outcomes = []
    for fresh in range(seed + 1, seed + 1 + FRESH_SEEDS):
        outcomes.append(trial(candidate, fresh))
        watch(Tried(candidate, outcomes[-1]))
    return Tried(candidate, Outcome.mean(outcomes))
