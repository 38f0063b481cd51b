"""A report on a terminal: milliseconds, requests a second, and what to beware of."""

from __future__ import annotations

from collections.abc import Iterator

from rich.box import SIMPLE
from rich.console import Console, RenderableType
from rich.table import Table

from easerve.bench.distribution import Distribution
from easerve.bench.knee import NEEDED
from easerve.bench.metrics import Summary
from easerve.bench.objectives import EVERY, TIERS, Objectives
from easerve.bench.report import LATE, Report, Run
from easerve.priority import NO_RIGHT


def show(report: Report, console: Console) -> None:
    """Everything a person needs to judge the server; the rest is in the JSON."""
    for part in _parts(report):
        console.print(part, highlight=False)


def _parts(report: Report) -> Iterator[RenderableType]:
    if report.unloaded:
        yield "unloaded: " + "; ".join(
            f"{name} TTFT {milliseconds(one.ttft)} ms, TPOT {milliseconds(one.tpot)} ms"
            for name, one in report.unloaded.items()
        )
    if report.objectives is not None:
        yield f"objectives ({report.objectives_source}): " + "; ".join(
            f"{name} {words(one)}" for name, one in report.objectives.items()
        )
    if not report.runs:
        yield "no load was run"
        return
    yield _throughput(report)
    yield _latencies(report)
    if report.tiers:
        yield _tiers(report)
    yield from _errors(report)
    if report.searched and report.objectives is not None:
        yield _knee(report)
    yield from _warnings(report)


def words(objectives: Objectives) -> str:
    """TTFT <= 2000 ms, TPOT <= 50 ms"""
    pairs = (("TTFT", objectives.ttft), ("TPOT", objectives.tpot), ("E2E", objectives.e2e))
    return ", ".join(f"{name} <= {milliseconds(value)} ms" for name, value in pairs if value is not None)


def _groups(report: Report) -> Iterator[tuple[str, Summary]]:
    for run in report.runs:
        for name, summary in run.groups.items():
            yield (run.name if name == EVERY else f"  {name}"), summary


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=SIMPLE, title_justify="left")
    table.add_column("load", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _throughput(report: Report) -> Table:
    table = _table("Throughput", "requests", "errors", "req/s", "output\ntokens/s", "goodput\nreq/s", "within")
    for name, one in _groups(report):
        goodput = ("-", "-") if one.good is None else (f"{one.good.goodput:.2f}", f"{one.good.share:.1%}")
        table.add_row(
            name, str(one.requests), str(one.requests - one.completed), f"{one.request_throughput:.2f}",
            f"{one.output_throughput:.1f}", *goodput,
        )  # fmt: skip
    return table


def _latencies(report: Report) -> Table:
    table = _table("Latency in ms", "", "mean", "P50", "P90", "P99")
    for name, one in _groups(report):
        rows = (("TTFT", one.ttft), ("TPOT", one.tpot), ("ITL", one.itl), ("E2E", one.e2e))
        for place, (metric, found) in enumerate(rows):
            table.add_row(name if place == 0 else "", metric, *_cells(found), end_section=place == len(rows) - 1)
    return table


def _cells(found: Distribution | None) -> list[str]:
    return (
        ["-"] * 4 if found is None else [milliseconds(value) for value in (found.mean, found.p50, found.p90, found.p99)]
    )


def _tiers(report: Report) -> Table:
    names = [f"{first:g}x TTFT\n{following:g}x TPOT" for first, following in TIERS]
    table = _table("Goodput in req/s within multiples of the unloaded latency (share of requests)", *names)
    for name, one in _groups(report):
        table.add_row(name, *(f"{tier.goodput:.2f}  {tier.share:4.0%}" for tier in one.tiers))
    return table


def _errors(report: Report) -> Iterator[str]:
    for run in report.runs:
        for kind, number in run.all.errors.items():
            message = next(record.message for record in run.observed.records if record.error == kind)
            yield f"{run.name}: {number} x {kind}{': ' + message if message else ''}"


def _knee(report: Report) -> str:
    if report.knee is None:
        return f"knee: none of these rates has {NEEDED:.0%} of requests within the objectives"
    above = [run.rate for run in report.runs if run.rate is not None and run.rate > report.knee]
    bound = f"; at {min(above):.3g} no longer" if above else "; no higher rate was tried"
    return f"knee: {report.knee:.3g} req/s with {NEEDED:.0%} of requests within the objectives{bound}"


def _warnings(report: Report) -> Iterator[str]:
    for run in report.runs:
        if run.slow_client:
            yield f"[yellow]beware, slow load generator:[/] {client_warning(run)}; give it a core of its own"
    if report.interrupted:
        yield "[yellow]interrupted:[/] requests that were in flight are not counted"


def client_warning(run: Run) -> str:
    return (
        f"{run.name}: {run.late} of {run.all.requests} requests left more than {LATE * 1000:.0f} ms late "
        f"(P99 {milliseconds(run.lag_p99)} ms, loop lag P99 {milliseconds(run.loop_lag_p99)} ms, "
        f"{run.observed.cpu_share:.0%} of a core used{'' if run.observed.goes_first else ', ' + NO_RIGHT})"
    )


def milliseconds(seconds: float | None) -> str:
    """One decimal below 100 ms; a dash for None."""
    if seconds is None:
        return "-"
    return f"{seconds * 1000:.1f}" if seconds < 0.1 else f"{seconds * 1000:.0f}"
