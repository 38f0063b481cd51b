"""One search by any method: what it may choose from, where it begins, when it ends, and who wins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from easerve.errors import BadRequest
from easerve.search.allocation import allocations
from easerve.search.explore import Tried, Watch, explore, finals
from easerve.search.loads import LoadModel
from easerve.search.methods import METHODS, Method, Search
from easerve.search.outcome import Objective, Trial
from easerve.search.prune import Verdict, kept
from easerve.search.space import Space
from easerve.search.stopping import TRIALS, StopRules

NEVER = sys.maxsize


@dataclass(frozen=True)
class Findings:
    """`tried` in the order of trials; `finals` are means over fresh seeds, the winner first."""

    method: Method
    objective: Objective
    tried: Sequence[Tried]
    reason: str  # why there were no more trials
    finals: Sequence[Tried]

    @property
    def best(self) -> Tried:
        return self.finals[0]


def whole_space(model: LoadModel, devices: int, spans: Sequence[int]) -> Space:
    """Every allocation of so many devices to workers that span as many as `spans` lists, and all settings.

    Raises BadRequest if the model has no room in any of them.
    """
    found = list(allocations(devices, spans, model.fits))
    if not found:
        raise BadRequest(
            f"the language model and one request of this workload have no room on {max(spans)} of these devices; "
            "give more devices, larger ones, or a lower precision"
        )
    return Space(found, frozenset(one for one in found if model.local(one)))


def tune(
    method: Method,
    space: Space,
    verdicts: Sequence[Verdict],
    trial: Trial,
    objective: Objective,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    watch: Watch = lambda tried: None,
) -> Findings:
    """A search as `refine` has it, and its best on fresh seeds. Raises BadRequest if stage one kept nothing."""
    tried, reason = refine(method, space, verdicts, trial, objective, trials=trials, seed=seed, watch=watch)
    return Findings(method, objective, tried, reason, finals(tried, trial, seed, objective, watch))


def refine(
    method: Method,
    space: Space,
    verdicts: Sequence[Verdict],
    trial: Trial,
    objective: Objective,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    watch: Watch = lambda tried: None,
) -> tuple[list[Tried], str]:
    """The trials in their order, and why there are no more.

    `has` chooses among what stage one kept and obeys all stop rules. What it is compared with chooses among
    everything that stage one was asked about; `exhaustive` tries it all, the others have as many trials as HAS at most.

    Raises BadRequest if stage one kept nothing.
    """
    starts = list(kept(verdicts))
    if not starts:
        raise BadRequest(f"no allocation is worth a trial: {_reasons(verdicts)}")
    limits = StopRules(trials, settled=NEVER, stalled=NEVER)
    if method == "has":
        space = space.within([start.allocation for start in starts])
        limits = StopRules(trials, starts=len(starts))
    elif method == "exhaustive":
        limits = StopRules(NEVER, settled=NEVER, stalled=NEVER)
    proposals = METHODS[method](Search(space, starts, objective, seed))
    return explore(proposals, trial, seed, limits, objective, watch)


def _reasons(verdicts: Sequence[Verdict]) -> str:
    return "; ".join(f"{one.allocation}: {one.dropped}" for one in verdicts)
