"""Measured and predicted figures beside each other: rows, a terminal's lines, JSON, and the table on a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from beside import Trial
from stage_table import stage_rows

from easerve.bench.markdown import markdown_table
from easerve.bench.marks import put_between
from easerve.bench.report import Report

BEGIN, END = "<!-- measured: written by benchmarks/prediction/predict.py -->", "<!-- end of measured -->"
WANTED = {"P50": 0.10, "P99": 0.20}  # errors at most
METRICS = ("TTFT", "TPOT")
COLUMNS = (
    *("topology", "req/s", "pace", "metric", "measured, ms", "uncorrected, ms", "predicted, ms"),
    *("error uncorrected", "error", "wanted", ""),
)


@dataclass(frozen=True)
class Figure:
    """Seconds; `rate` in requests a second. `uncorrected` is predicted from the profile alone."""

    topology: str
    rate: float
    metric: str  # "TTFT P50"
    measured: float
    uncorrected: float
    predicted: float
    pace: str  # of the machine in the run

    @property
    def error(self) -> float:
        """How much more was predicted than measured, as a part of what was measured."""
        return self.predicted / self.measured - 1

    @property
    def uncorrected_error(self) -> float:
        return self.uncorrected / self.measured - 1

    @property
    def reached(self) -> bool:
        return abs(self.error) <= WANTED[self.metric.split()[1]]


def figures(topology: str, trial: Trial) -> Iterator[Figure]:
    uncorrected, predicted = _latencies(trial.uncorrected), _latencies(trial.predicted)
    for metric, seconds in _latencies(trial.served.report).items():
        yield Figure(topology, trial.rate, metric, seconds, uncorrected[metric], predicted[metric], trial.pace)


def _latencies(report: Report) -> dict[str, float]:
    """Of its only run."""
    (run,) = report.runs
    found: dict[str, float] = {}
    for name, spread in zip(METRICS, (run.all.ttft, run.all.tpot), strict=True):
        assert spread is not None
        found |= {f"{name} P50": spread.p50, f"{name} P99": spread.p99}
    return found


def lines(found: Sequence[Figure]) -> Iterator[str]:
    """For a terminal."""
    for one in found:
        mark = "" if one.reached else "  MISSED"
        yield (
            f"{one.topology:11} {one.rate:5.2f} req/s  {one.metric}  measured {1e3 * one.measured:8.1f} ms  "
            f"predicted {1e3 * one.predicted:8.1f} ms  {one.error:+7.1%} (uncorrected {one.uncorrected_error:+7.1%})  "
            f"pace {one.pace}{mark}"
        )


def summary(found: Sequence[Figure]) -> str:
    """How many reach what is wanted, and how many would without the pace."""
    corrected = _reached((one.metric, one.error) for one in found)
    return f"{corrected} (uncorrected: {_reached((one.metric, one.uncorrected_error) for one in found)})"


def _reached(found: Iterable[tuple[str, float]]) -> str:
    """Of metrics and errors."""
    words, several = [], list(found)
    for point, bound in WANTED.items():
        errors = [abs(error) for metric, error in several if metric.endswith(point)]
        if errors:
            within = sum(error <= bound for error in errors)
            words.append(f"{point}: {within} of {len(errors)} within {bound:.0%}, median error {median(errors):.1%}")
    return "; ".join(words)


def write(folder: Path, topology: str, found: Sequence[Figure], more: Mapping[str, Any]) -> Path:
    path = folder / f"{topology}.json"
    path.write_text(json.dumps({"figures": [vars(one) for one in found], **more}, indent=1), encoding="utf-8")
    return path


def update_page(page: Path, folder: Path, topologies: Sequence[str]) -> None:
    """Put the table of all results in `folder` between the page's marks. Raises ValueError if it has none."""
    results = [json.loads(path.read_text()) for one in topologies if (path := folder / f"{one}.json").is_file()]
    put_between(page, BEGIN, END, _markdown(results))


def _markdown(results: Sequence[Mapping[str, Any]]) -> str:
    results = [one for one in results if all("pace" in figure for figure in one["figures"])]  # not older ones
    found = [[Figure(**one) for one in result["figures"]] for result in results]
    every = [figure for several in found for figure in several]
    rows = [*markdown_table(COLUMNS, map(_cells, every)), "", summary(every) + ".", ""]
    for several, result in zip(found, results, strict=True):
        rows.append(f"- {several[0].topology}: `{result['command']}`, {result['ended'][:10]}; {result['profiled']}")
    return "\n".join([*rows, "", *stage_rows(results)]) + "\n"


def _cells(one: Figure) -> list[str]:
    times = [f"{1e3 * seconds:.1f}" for seconds in (one.measured, one.uncorrected, one.predicted)]
    errors = [f"{one.uncorrected_error:+.1%}", f"{one.error:+.1%}", f"{WANTED[one.metric.split()[1]]:.0%}"]
    mark = "reached" if one.reached else "missed"
    return [one.topology, f"{one.rate:g}", one.pace, one.metric, *times, *errors, mark]
