"""When a search has seen enough: the stop rules of HAS (EAServe, arXiv 2609.31551; the numbers but 30 are ours)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from easerve.search.outcome import Objective, Outcome, rank

TOP = 3
TRIALS = 30


@dataclass(frozen=True)
class StopRules:
    """`settled` and `stalled` count trials after the first `starts`, those that a search is begun with."""

    most: int = TRIALS
    settled: int = 6  # trials that leave the best three as they are
    stalled: int = 8  # trials that together gain less than `gain`
    gain: float = 0.01
    starts: int = 0

    def reason(self, outcomes: Sequence[Outcome], objective: Objective) -> str:
        """Why to stop after these trials; empty to go on."""
        if len(outcomes) >= self.most:
            return f"{self.most} trials"
        if self._left(outcomes, self.settled) and _top(outcomes, objective) == _top(
            outcomes[: -self.settled], objective
        ):
            return f"the best {TOP} are the same for {self.settled} trials"
        if self._left(outcomes, self.stalled) and not self._gained(outcomes, objective):
            return f"less than {self.gain:.0%} gained in {self.stalled} trials"
        return ""

    def _left(self, outcomes: Sequence[Outcome], trials: int) -> bool:
        return len(outcomes) >= max(self.starts, TOP) + trials

    def _gained(self, outcomes: Sequence[Outcome], objective: Objective) -> bool:
        before = max(getattr(one, objective) for one in outcomes[: -self.stalled])
        now = max(getattr(one, objective) for one in outcomes)
        return bool(now > (1 + self.gain) * before)


def best_first(outcomes: Sequence[Outcome], objective: Objective) -> list[int]:
    """Places of the outcomes, best rank first, earlier ones before later ones of the same rank."""
    return sorted(range(len(outcomes)), key=lambda place: rank(outcomes[place], objective), reverse=True)


def _top(outcomes: Sequence[Outcome], objective: Objective) -> list[int]:
    return best_first(outcomes, objective)[:TOP]
