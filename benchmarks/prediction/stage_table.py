"""Where an error of a prediction arises: mean times of stages and busy shares of workers, predicted beside measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from easerve.bench.markdown import markdown_table
from easerve.bench.stages import STAGES

WORDS = "Mean milliseconds of a request in each stage, and busy share of workers: measured / predicted."


def stage_rows(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A table of what `predict.py` leaves in --results."""
    columns = ("topology", "req/s", *(stage.replace("_", " ") for stage in STAGES), "busy")
    yield WORDS
    yield ""
    yield from markdown_table(columns, (_cells(result, trial) for result in results for trial in result["trials"]))


def _cells(result: Mapping[str, Any], trial: Mapping[str, Any]) -> list[str]:
    measured, predicted = (trial[side]["runs"][0] for side in ("measured", "predicted"))
    topology, rate = result["figures"][0]["topology"], f"{trial['rate']:g}"
    return [topology, rate, *_stages(measured, predicted), _busy(measured, predicted)]


def _stages(measured: Mapping[str, Any], predicted: Mapping[str, Any]) -> Iterator[str]:
    ours, theirs = (run["stages_mean_ms"] for run in (predicted, measured))
    for stage in STAGES:
        yield f"{theirs.get(stage, 0.0):.1f} / {ours.get(stage, 0.0):.1f}"


def _busy(measured: Mapping[str, Any], predicted: Mapping[str, Any]) -> str:
    shares = [
        f"{worker} {stage} {100 * share:.0f} / {100 * predicted['utilisation'].get(worker, {}).get(stage, 0.0):.0f} %"
        for worker, stages in measured["utilisation"].items()
        for stage, share in stages.items()
    ]
    return ", ".join(shares)
