"""The figures of `easerve bench` and of `vllm bench serve` under the same names, and vLLM's of what ours recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from easerve.bench.objectives import Objectives
from easerve.bench.record import Record

Figures = Mapping[str, float]
LATENCIES = {  # name here -> field of our summary, and vLLM's word for it
    "TTFT": ("ttft", "ttft"),
    "TPOT": ("tpot", "tpot"),
    "ITL of all chunks": ("chunk_gap", "itl"),
    "E2E": ("e2e", "e2el"),
}
RATES = {"requests/s": "request_throughput", "output tokens/s": "output_throughput"}


def ours(summary: Mapping[str, Any]) -> Figures:
    """Of a `Summary` as a mapping, as a report's JSON has it. Rates, and latencies in ms; 0 of no requests."""
    goodput = {} if summary["good"] is None else {"goodput, req/s": summary["good"]["goodput"]}
    latencies = {
        f"{name} {shown}, ms": 1000 * (summary[field] or {statistic: 0.0})[statistic]
        for name, (field, _) in LATENCIES.items()
        for shown, statistic in (("mean", "mean"), ("P99", "p99"))
    }
    return {name: summary[field] for name, field in RATES.items()} | goodput | latencies


def theirs(result: Mapping[str, Any]) -> Figures:
    """Of a result of `vllm bench serve`, likewise."""
    goodput = {} if result["request_goodput"] is None else {"goodput, req/s": result["request_goodput"]}
    latencies = {
        f"{name} {shown}, ms": result[f"{statistic}_{word}_ms"]
        for name, (_, word) in LATENCIES.items()
        for shown, statistic in (("mean", "mean"), ("P99", "p99"))
    }
    return {name: result[field] for name, field in RATES.items()} | goodput | latencies


def recomputed(records: Sequence[Record], seconds: float, objectives: Objectives) -> Figures:
    """By vLLM's own function, from when each request was sent and each of its chunks received. Imports vLLM."""
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncOutput
    from vllm.benchmarks.serve import calculate_metrics

    outputs = [
        RequestFuncOutput(
            success=record.error is None,
            start_time=record.sent,
            ttft=record.chunks[0] - record.sent if record.chunks else 0.0,
            latency=record.chunks[-1] - record.sent if record.chunks else 0.0,
            itl=[later - earlier for earlier, later in pairwise(record.chunks)],
            output_tokens=record.output_tokens,
            prompt_len=record.prompt_tokens or 0,
            error=record.message,
        )
        for record in records
    ]
    wanted = {"ttft": objectives.ttft, "tpot": objectives.tpot, "e2el": objectives.e2e}
    goodput = {word: 1000 * value for word, value in wanted.items() if value is not None}
    found, _ = calculate_metrics([], outputs, seconds, None, [99.0], goodput)
    p99 = {f"p99_{word}_ms": getattr(found, f"percentiles_{word}_ms")[0][1] for _, word in LATENCIES.values()}
    return theirs({**vars(found), **p99, "request_goodput": found.request_goodput if goodput else None})


def difference(run: Mapping[str, Any], objectives: Objectives) -> float:
    """The largest difference between our figures of a run and vLLM's of its requests, as a share."""
    mine = ours(run["metrics"]["all"])
    other = recomputed([Record(**one) for one in run["requests"]], run["metrics"]["all"]["seconds"], objectives)
    return max(abs(mine[name] - other[name]) / (abs(other[name]) or 1.0) for name in other)
