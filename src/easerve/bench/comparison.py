"""Servers side by side: ratios round by round to the first of them, with their spread.

Single times tell of the machine and the hour; a ratio of two runs that followed one another tells of the servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from easerve.bench.distribution import Distribution
from easerve.bench.metrics import Summary
from easerve.bench.objectives import EVERY, ByModality
from easerve.bench.plan import Plan
from easerve.bench.report import Run
from easerve.bench.target import Target

Metric = Callable[[Summary], float | None]


def _ms(read: Callable[[Summary], Distribution | None], statistic: Callable[[Distribution], float]) -> Metric:
    def metric(one: Summary) -> float | None:
        found = read(one)
        return None if found is None else statistic(found) * 1000

    return metric


METRICS: Mapping[str, Metric] = {
    "goodput, req/s": lambda one: None if one.good is None else one.good.goodput,
    "throughput, req/s": lambda one: one.request_throughput,
    "output tokens/s": lambda one: one.output_throughput,
    "TTFT mean, ms": _ms(lambda one: one.ttft, lambda found: found.mean),
    "TTFT P99, ms": _ms(lambda one: one.ttft, lambda found: found.p99),
    "TPOT mean, ms": _ms(lambda one: one.tpot, lambda found: found.mean),
    "TPOT P99, ms": _ms(lambda one: one.tpot, lambda found: found.p99),
    "ITL P99, ms": _ms(lambda one: one.itl, lambda found: found.p99),
    "E2E mean, ms": _ms(lambda one: one.e2e, lambda found: found.mean),
    "E2E P99, ms": _ms(lambda one: one.e2e, lambda found: found.p99),
}


@dataclass(frozen=True)
class Spread:
    """Of the rounds; the values in their order."""

    values: Sequence[float]

    @property
    def middle(self) -> float:
        return median(self.values)

    def __str__(self) -> str:
        return f"{_short(self.middle)} ({_short(min(self.values))} to {_short(max(self.values))})"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


@dataclass(frozen=True)
class Comparison:
    """`runs` by server, one a round, in the order of the rounds; ratios are to the first server."""

    plan: Plan
    targets: Mapping[str, Target]
    objectives: ByModality | None
    objectives_source: str
    runs: Mapping[str, Sequence[Run]]
    interrupted: bool

    @property
    def first(self) -> str:
        return next(iter(self.runs))

    @property
    def groups(self) -> list[str]:
        """All requests, and the modalities that every round of every server had."""
        common = [set(run.groups) for runs in self.runs.values() for run in runs]
        return [EVERY, *sorted(set.intersection(*common) - {EVERY})] if common else []

    def rows(self) -> Iterator[tuple[str, str, Mapping[str, Spread], Mapping[str, Spread]]]:
        """(group, metric, values by server, ratios by server but the first), where there is something to compare."""
        for group in self.groups:
            for metric, read in METRICS.items():
                values = {name: _values(runs, group, read) for name, runs in self.runs.items()}
                found = {name: [one for one in several if one is not None] for name, several in values.items()}
                if all(found.values()):
                    yield group, metric, {name: Spread(one) for name, one in found.items()}, self._ratios(values)

    def _ratios(self, values: Mapping[str, Sequence[float | None]]) -> dict[str, Spread]:
        base = values[self.first]
        ratios = {}
        for name, mine in values.items():
            pairs = zip(mine, base, strict=False)  # an interrupted round may lack the last
            found = [one / other for one, other in pairs if one is not None and other]
            if name != self.first and found:
                ratios[name] = Spread(found)
        return ratios


def _values(runs: Sequence[Run], group: str, read: Metric) -> list[float | None]:
    return [read(run.groups[group]) for run in runs]
