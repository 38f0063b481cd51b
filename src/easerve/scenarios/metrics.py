"""What a published figure can be of: numbers of a run by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import fmean

from easerve.bench.distribution import Distribution
from easerve.bench.metrics import Summary
from easerve.bench.report import Report, Run
from easerve.errors import EAServeError

Metric = Callable[[Report], float]


def measure(report: Report, metric: str) -> float:
    """Seconds, requests a second or shares. Raises EAServeError if the run has no such number."""
    try:
        return METRICS[metric](report)
    except _Missing:
        raise EAServeError(f"the run has no {metric}: nothing was answered, or no objective was set") from None


class _Missing(Exception):
    pass


def _run(report: Report) -> Run:
    return report.runs[0]


def _latency(found: Distribution | None) -> Distribution:
    if found is None:
        raise _Missing
    return found


def _group(report: Report, modality: str) -> Summary:
    if modality not in _run(report).groups:
        raise _Missing
    return _run(report).groups[modality]


def _goodput(report: Report) -> float:
    found = _run(report).all.good
    if found is None:
        raise _Missing
    return found.goodput


def _knee(report: Report) -> float:
    """0 where no rate was good."""
    return report.knee or 0.0


def _overload(report: Report) -> float:
    """P99 TTFT in units of N (1/X - 1/rate): what the last of N requests waits for that come faster than X."""
    run = _run(report)
    if run.rate is None or run.all.request_throughput >= run.rate:
        raise _Missing
    last = run.all.requests * (1 / run.all.request_throughput - 1 / run.rate)
    return _latency(run.all.ttft).p99 / last


def _encode_busy(report: Report) -> float:
    """Of workers that encode, whatever they were busy with."""
    busy = _run(report).utilisation.overall()
    encoders = {worker for worker, stage in busy if stage == "encode"}
    if not encoders:
        raise _Missing
    return fmean(
        min(1.0, sum(share for (worker, _), share in busy.items() if worker == encoder)) for encoder in encoders
    )


METRICS: Mapping[str, Metric] = {
    "throughput": lambda report: _run(report).all.request_throughput,
    "goodput": _goodput,
    "knee": _knee,
    "encode_busy": _encode_busy,
    "overload": _overload,
    "ttft_mean": lambda report: _latency(_run(report).all.ttft).mean,
    "ttft_p99": lambda report: _latency(_run(report).all.ttft).p99,
    "tpot_mean": lambda report: _latency(_run(report).all.tpot).mean,
    "tpot_p99": lambda report: _latency(_run(report).all.tpot).p99,
    "e2e_mean": lambda report: _latency(_run(report).all.e2e).mean,
    "ttft_mean of text": lambda report: _latency(_group(report, "text").ttft).mean,
    "ttft_mean of images": lambda report: _latency(_group(report, "image").ttft).mean,
}
RATES = ("throughput", "goodput", "knee")  # they add up over replicas
