"""What to try next: generators that yield candidates and are sent outcomes.

`has` is TPE seeded at the balanced points (EAServe, arXiv 2609.31551); the others are what it is compared with. All are
deterministic: the same outcomes lead to the same candidates.
"""

from __future__ import annotations

import random as draws
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from easerve.search.outcome import Objective, Outcome, score
from easerve.search.space import Candidate, Space
from easerve.search.tpe import tpe

Proposals: TypeAlias = Generator[Candidate, Outcome, None]
Method = Literal["has", "random", "coordinate", "exhaustive"]


@dataclass(frozen=True)
class Search:
    """What a method is told: the space it may choose from, where to begin, how to compare, and a seed."""

    space: Space
    starts: Sequence[Candidate]
    objective: Objective
    seed: int = 0


def has(search: Search) -> Proposals:
    return tpe(search.space, search.starts, search.seed, lambda outcome: score(outcome, search.objective))


def random(search: Search) -> Proposals:
    """All candidates in random order."""
    everything = list(search.space)
    draws.Random(search.seed).shuffle(everything)
    yield from _plain(everything)


def exhaustive(search: Search) -> Proposals:
    yield from _plain(search.space)


def coordinate(search: Search) -> Proposals:
    """From the middle of everything, the best value of one coordinate after the other, until none helps any more."""
    everything = list(search.space)
    best = everything[len(everything) // 2]
    known = {best: score((yield best), search.objective)}
    before = None
    while best != before:
        before = best
        for variants in _VARIANTS:
            for candidate in variants(search.space, best):
                if candidate not in known:
                    known[candidate] = score((yield candidate), search.objective)
            best = max(known, key=lambda one: known[one])


def _plain(candidates: Space | Sequence[Candidate]) -> Proposals:
    """Yields them and does not look at what comes of them (`yield from` would send that on, to what takes nothing)."""
    for candidate in candidates:  # noqa: UP028
        yield candidate


def _other_allocations(space: Space, one: Candidate) -> Iterator[Candidate]:
    for allocation in space.allocations:
        ratio = min(space.ratios_of(allocation), key=lambda ratio: abs(ratio - one.ratio))
        yield Candidate(allocation, one.batch, ratio, one.rule)


def _other_batches(space: Space, one: Candidate) -> Iterator[Candidate]:
    for batch in space.batches:
        rule = one.rule if one.rule in space.rules_of(batch) else space.rules[0]
        yield Candidate(one.allocation, batch, one.ratio, rule)


def _other_ratios(space: Space, one: Candidate) -> Iterator[Candidate]:
    for ratio in space.ratios_of(one.allocation):
        yield Candidate(one.allocation, one.batch, ratio, one.rule)


def _other_rules(space: Space, one: Candidate) -> Iterator[Candidate]:
    for rule in space.rules_of(one.batch):
        yield Candidate(one.allocation, one.batch, one.ratio, rule)


_VARIANTS = (_other_allocations, _other_batches, _other_ratios, _other_rules)

METHODS: Mapping[Method, Callable[[Search], Proposals]] = {
    "has": has,
    "random": random,
    "coordinate": coordinate,
    "exhaustive": exhaustive,
}
