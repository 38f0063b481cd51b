"""What can be chosen: an allocation, the batch bound B, the remote ratio s and the batching rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from easerve.search.allocation import Allocation

BATCHES = (1, 2, 4, 8, 16)
RATIOS = tuple(step / 20 for step in range(21))
RULES = ("greedy", "gap", "smdp")


@dataclass(frozen=True)
class Candidate:
    """One choice of everything; `ratio` is 1 where nothing is prefilled beside an encoder."""

    allocation: Allocation
    batch: int
    ratio: float
    rule: str

    def __str__(self) -> str:
        """2E + 1P + 2D, TP 2; B 8, gap, s 0.60"""
        local = f", s {self.ratio:.2f}" if self.ratio < 1 else ""
        return f"{self.allocation}; B {self.batch}, {self.rule}{local}"


@dataclass(frozen=True)
class Space:
    """Every value that is tried. Grids, so that the best of all is well defined and can be found by trying them all."""

    allocations: Sequence[Allocation]
    local: frozenset[Allocation]  # whose encode workers have room for the language model
    batches: Sequence[int] = BATCHES
    ratios: Sequence[float] = RATIOS
    rules: Sequence[str] = RULES

    def ratios_of(self, allocation: Allocation) -> Sequence[float]:
        return self.ratios if allocation in self.local else (1.0,)

    def rules_of(self, batch: int) -> Sequence[str]:
        """Batches of one are due at once, whatever the rule."""
        return self.rules if batch > 1 else self.rules[:1]

    def within(self, allocations: Sequence[Allocation]) -> Space:
        """The same with fewer allocations."""
        return Space(allocations, self.local, self.batches, self.ratios, self.rules)

    def __iter__(self) -> Iterator[Candidate]:
        for allocation in self.allocations:
            for ratio in self.ratios_of(allocation):
                for batch in self.batches:
                    for rule in self.rules_of(batch):
                        yield Candidate(allocation, batch, ratio, rule)
