"""A report as JSON: everything, so that other figures can be drawn from it later. Times are seconds."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import httpx

from easerve import __version__
from easerve.bench.knee import NEEDED
from easerve.bench.objectives import TIERS, ByModality
from easerve.bench.report import LATE, Report, Run
from easerve.bench.stages import mean_stages

FORMAT = 1


def document(report: Report, command: str) -> dict[str, Any]:
    """`command` is what was typed."""
    return {
        **heading(command),
        "server": asdict(report.target),
        "plan": report.plan.as_json(),
        "interrupted": report.interrupted,
        "unloaded": {name: asdict(one) for name, one in report.unloaded.items()},
        "objectives": report.objectives and {"source": report.objectives_source, **objectives_json(report.objectives)},
        "tiers": [
            {"times_unloaded": {"ttft": first, "tpot": following}, "objectives": objectives_json(tier)}
            for (first, following), tier in zip(TIERS, report.tiers, strict=False)
        ],
        "knee": {"rate": report.knee, "share_needed": NEEDED} if report.searched else None,
        "runs": [run_json(run) for run in report.runs],
    }


def heading(command: str) -> dict[str, Any]:
    """What was typed, when, with what, and on what."""
    return {
        "format": FORMAT,
        "command": command,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"easerve": __version__, "python": platform.python_version(), "httpx": httpx.__version__},
        "machine": {"platform": platform.platform(), "cores_of_generator": len(os.sched_getaffinity(0))},
    }


def command_line() -> str:
    """What was typed, without a key that may be in it."""
    words = ["easerve", *sys.argv[1:]]
    for place, word in enumerate(words):
        if word == "--api-key" and place + 1 < len(words):
            words[place + 1] = "..."
        if word.startswith("--api-key="):
            words[place] = "--api-key=..."
    return " ".join(f"'{word}'" if " " in word else word for word in words)


def objectives_json(by_modality: ByModality) -> dict[str, Any]:
    """Seconds, by modality."""
    return {name: asdict(one) for name, one in by_modality.items()}


def run_json(run: Run) -> dict[str, Any]:
    """Figures and every request."""
    return {
        "rate": run.rate,
        "concurrency": run.concurrency,
        "interrupted": run.observed.interrupted,
        "metrics": {name: asdict(summary) for name, summary in run.groups.items()},
        "generator": {
            "late_sends": run.late,
            "late_after": LATE,
            "lag_p99": run.lag_p99,
            "lag_max": max((record.lag for record in run.observed.records), default=0.0),
            "loop_lag_p99": run.loop_lag_p99,
            "cpu_share": run.observed.cpu_share,
            "goes_first": run.observed.goes_first,
        },
        "stages_mean_ms": mean_stages(run.observed.records),
        "utilisation": _by_worker(run.utilisation.overall()),
        "utilisation_over_time": _by_worker(run.utilisation.over_time()),
        "requests": [record.as_json() for record in run.observed.records],
    }


def _by_worker(found: Mapping[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    workers: dict[str, dict[str, Any]] = {}
    for (worker, stage), value in found.items():
        workers.setdefault(worker, {})[stage] = value
    return workers
