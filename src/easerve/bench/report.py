"""What a benchmark found, as data; tables, JSON and pages are made from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from easerve.bench.distribution import percentile
from easerve.bench.generator import Observed
from easerve.bench.metrics import Summary
from easerve.bench.objectives import EVERY, ByModality, Unloaded
from easerve.bench.plan import Plan
from easerve.bench.target import Target
from easerve.bench.workers import Utilisation

LATE = 0.02  # seconds after its moment from which a send counts as late
TOO_MANY_LATE = 0.02  # share of late sends that a reader is warned of


@dataclass(frozen=True)
class Run:
    """One load. `rate` is requests a second offered, None in a closed loop of `concurrency`."""

    rate: float | None
    concurrency: int | None
    observed: Observed
    groups: Mapping[str, Summary]  # EVERY, and modalities where there are several
    utilisation: Utilisation

    @property
    def name(self) -> str:
        return f"concurrency {self.concurrency}" if self.rate is None else f"{self.rate:.3g} req/s"

    @property
    def all(self) -> Summary:
        return self.groups[EVERY]

    @property
    def late(self) -> int:
        """Requests that left more than LATE after their moment."""
        return sum(record.lag > LATE for record in self.observed.records)

    @property
    def slow_client(self) -> bool:
        """The generator was too busy, or got no core in time, for the figures to be the server's alone.

        It sent late, or may have noted several tokens at once.
        """
        itl = self.all.itl
        noted_late = itl is not None and self.loop_lag_p99 > itl.mean
        return noted_late or self.late > max(1, TOO_MANY_LATE * len(self.observed.records))

    @property
    def lag_p99(self) -> float:
        """Of the sends, in seconds."""
        return percentile([record.lag for record in self.observed.records] or [0.0], 99)

    @property
    def loop_lag_p99(self) -> float:
        """By which the generator's loop oversleeps, in seconds."""
        return percentile(self.observed.overslept or [0.0], 99)


@dataclass(frozen=True)
class Report:
    """`objectives` are those that goodput and the knee are judged by; None if there are none."""

    plan: Plan
    target: Target
    unloaded: Mapping[str, Unloaded]
    objectives: ByModality | None
    objectives_source: str  # "given", or which tier
    tiers: Sequence[ByModality]
    runs: Sequence[Run]
    knee: float | None
    searched: bool  # a knee was looked for
    interrupted: bool
