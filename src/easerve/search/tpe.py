"""Optuna's TPE (tree-structured Parzen estimator) as a generator of candidates; begins with given ones."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

from easerve.errors import StartupError
from easerve.search.outcome import Outcome
from easerve.search.space import Candidate, Space

if TYPE_CHECKING:
    import optuna

DRAWS = 64  # per proposal, of which the most promising is made; Optuna's 24 is few where most are known already
REPEATS = 10  # proposals known already, in a row, after which one is drawn instead


def tpe(
    space: Space, starts: Sequence[Candidate], seed: int, score: Callable[[Outcome], float]
) -> Generator[Candidate, Outcome, None]:
    """Never yields a candidate twice; ends when there is none left. Raises StartupError without Optuna."""
    study = _study(seed, len(starts))
    for start in starts:
        study.enqueue_trial(_parameters(space, start))
    left = list(space)
    random.Random(seed).shuffle(left)
    known: dict[Candidate, float] = {}
    repeats = 0
    while len(known) < len(left):
        trial = study.ask()
        candidate = _suggest(trial, space)
        if candidate not in known:
            known[candidate] = score((yield candidate))
            repeats = 0
        elif (repeats := repeats + 1) > REPEATS:
            study.enqueue_trial(_parameters(space, next(one for one in left if one not in known)))
        study.tell(trial, known[candidate])


def _study(seed: int, starts: int) -> optuna.Study:
    try:
        import optuna
    except ImportError as error:
        raise StartupError("planning needs Optuna; install it with: pip install 'easerve[plan]'") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=starts, n_ei_candidates=DRAWS)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _suggest(trial: optuna.Trial, space: Space) -> Candidate:
    """Conditional parameters are asked for only where they mean something."""
    allocation = space.allocations[trial.suggest_categorical("allocation", range(len(space.allocations)))]
    batch = space.batches[trial.suggest_int("batch", 0, len(space.batches) - 1)]
    ratios, rules = space.ratios_of(allocation), space.rules_of(batch)
    ratio = ratios[trial.suggest_int("ratio", 0, len(ratios) - 1)] if len(ratios) > 1 else ratios[0]
    rule = trial.suggest_categorical("rule", rules) if len(rules) > 1 else rules[0]
    return Candidate(allocation, batch, ratio, rule)


def _parameters(space: Space, candidate: Candidate) -> dict[str, int | str]:
    """What `_suggest` makes this candidate of."""
    return {
        "allocation": space.allocations.index(candidate.allocation),
        "batch": space.batches.index(candidate.batch),
        "ratio": space.ratios_of(candidate.allocation).index(candidate.ratio),
        "rule": candidate.rule,
    }
