"""What counts as good: objectives in seconds, given, or as multiples of what an unloaded server takes.

The EAServe paper (arXiv 2609.31551) has five SLO tiers, whose values are not public; the multiples are derived here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from easerve.bench.record import Record

TIERS: Sequence[tuple[float, float]] = ((2, 1.5), (3, 2), (5, 3), (8, 4), (12, 6))  # x unloaded (TTFT, TPOT)
MODERATE = 3  # the tier that sweeps use when no objective is given, counted from 1
EVERY = "all"  # in place of a modality


@dataclass(frozen=True)
class Objectives:
    """None: no objective. A request without a second token has a TPOT of 0, as in vLLM's bench."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    @property
    def given(self) -> bool:
        return self != Objectives()

    def met_by(self, record: Record) -> bool:
        """False for whatever ended in an error."""
        if record.error is not None:
            return False
        pairs = ((record.ttft, self.ttft), (record.tpot or 0.0, self.tpot), (record.e2e, self.e2e))
        return all(wanted is None or value <= wanted for value, wanted in pairs)


ByModality = Mapping[str, Objectives]  # each request is judged as its modality; EVERY stands for those not named


def met(objectives: ByModality, record: Record) -> bool:
    return objectives.get(record.modality, objectives[EVERY]).met_by(record)


@dataclass(frozen=True)
class Unloaded:
    """Medians of a modality's requests one at a time, in seconds."""

    ttft: float
    tpot: float | None
    e2e: float
    requests: int


def unloaded(records: Sequence[Record]) -> dict[str, Unloaded]:
    """Of all together, and of each modality where there are several; empty if nothing was answered."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        if record.error is None:
            groups.setdefault(EVERY, []).append(record)
            groups.setdefault(record.modality, []).append(record)
    if len(groups) == 2:  # all, and the only modality
        del groups[next(name for name in groups if name != EVERY)]
    return {name: _medians(group) for name, group in groups.items()}


def _medians(records: Sequence[Record]) -> Unloaded:
    tpots = [record.tpot for record in records if record.tpot is not None]
    return Unloaded(
        ttft=median(record.ttft for record in records),
        tpot=median(tpots) if tpots else None,
        e2e=median(record.e2e for record in records),
        requests=len(records),
    )


def tiers(measured: Mapping[str, Unloaded]) -> list[ByModality]:
    """The objectives of each tier; none if nothing was measured."""
    if not measured:
        return []
    return [
        {
            name: Objectives(one.ttft * first, None if one.tpot is None else one.tpot * following)
            for name, one in measured.items()
        }
        for first, following in TIERS
    ]
