"""Which plots a report has: each is a title, an SVG, a legend and a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from easerve.bench.objectives import EVERY, TIERS
from easerve.bench.record import Record
from easerve.bench.report import Report, Run
from easerve.bench.stages import STAGES, mean_stages, stages
from easerve.bench.svg import COLOURS, Axis, Bar, Line, bars, chart

MOST_POINTS = 200  # of a distribution's curve
MOST_ROWS = 40  # requests of a timeline
LEFT_OF_TIMELINE = 20.0  # pixels; its rows have no labels
STAGE_COLOURS = dict(zip(STAGES, (
    "#b0bec5", "#8d6e63", "#90caf9", "#1e88e5", "#8e24aa", "#ffcc80", "#fb8c00", "#6d4c41", "#43a047",
), strict=True))  # fmt: skip


@dataclass(frozen=True)
class Plot:
    """`legend` is (name, colour); `svg` is trusted text of ours."""

    title: str
    svg: str
    legend: Sequence[tuple[str, str]]
    note: str = ""


def plots(report: Report) -> Iterator[Plot]:
    """Those that the report has data for."""
    rated = [run for run in report.runs if run.rate is not None]
    if len(rated) > 1:
        yield _goodput(report, rated)
        yield _latency(rated)
    yield _cdf("Time to first token", report.runs, lambda record: record.ttft, "TTFT in ms")
    yield _cdf("Time per output token", report.runs, lambda record: record.tpot, "TPOT in ms")
    for run in report.runs:
        yield from _server(run)


def _goodput(report: Report, runs: Sequence[Run]) -> Plot:
    lines = [Line("offered", [(run.rate or 0.0, run.rate or 0.0) for run in runs], "#9e9e9e", dashed=True)]
    lines.append(
        Line("throughput", [(run.rate or 0.0, run.all.request_throughput) for run in runs], COLOURS[9], dots=True)
    )
    if report.objectives is not None:
        goods = [(run.rate or 0.0, run.all.good.goodput) for run in runs if run.all.good]
        lines.append(Line(f"goodput ({report.objectives_source})", goods, COLOURS[0], dots=True))
    for place, (first, following) in enumerate(TIERS if report.tiers else ()):
        points = [(run.rate or 0.0, run.all.tiers[place].goodput) for run in runs]
        lines.append(Line(f"goodput, {first:g}x TTFT and {following:g}x TPOT", points, COLOURS[place + 1]))
    knee = f"Knee: {report.knee:.3g} req/s." if report.knee else ""
    return Plot("Goodput against rate", chart(lines, Axis("offered req/s"), Axis("req/s")), _legend(lines), knee)


def _latency(runs: Sequence[Run]) -> Plot:
    found = [(run.rate or 0.0, run.all.ttft) for run in runs]
    lines = [
        Line(name, [(rate, getattr(one, name) * 1000) for rate, one in found if one], COLOURS[place], dots=True)
        for place, name in enumerate(("mean", "p50", "p90", "p99"))
    ]
    svg = chart(lines, Axis("offered req/s"), Axis("TTFT in ms", log=True))
    return Plot("Time to first token against rate", svg, _legend(lines))


def _cdf(title: str, runs: Sequence[Run], value: Callable[[Record], float | None], axis: str) -> Plot:
    lines: list[Line] = []
    for run in runs:
        for name in run.groups if len(runs) == 1 else (EVERY,):
            answered = [record for record in run.observed.records if record.error is None]
            group = [record for record in answered if name in (EVERY, record.modality)]
            found = sorted(one * 1000 for one in map(value, group) if one is not None)
            label = run.name if name == EVERY else f"{run.name}, {name}"
            lines.append(Line(label, _steps(found), COLOURS[len(lines) % len(COLOURS)], dashed=name != EVERY))
    return Plot(title, chart(lines, Axis(axis, log=True), Axis("share of requests")), _legend(lines))


def _steps(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """Of a distribution: (value, share at or below it), thinned out."""
    every = max(1, len(ordered) // MOST_POINTS)
    places = [*range(0, len(ordered), every), len(ordered) - 1] if ordered else []
    return [(ordered[place], (place + 1) / len(ordered)) for place in places]


def _server(run: Run) -> Iterator[Plot]:
    """Where an EAServe server's time went."""
    legend = list(STAGE_COLOURS.items())
    if means := mean_stages(run.observed.records):
        row = Bar("mean request", 0.0, [(stage, means[stage], STAGE_COLOURS[stage]) for stage in STAGES])
        yield Plot(f"Stages of a request at {run.name}", bars([row], Axis("ms"), 26), legend)
        yield _timeline(run, legend)
    shares = run.utilisation.overall()
    if shares:
        rows = [
            Bar(f"{worker}, {stage}", 0.0, [("busy", 100 * share, COLOURS[0])])
            for (worker, stage), share in shares.items()
        ]
        yield Plot(f"Workers at {run.name}", bars([*rows], Axis("% of the run busy", least_end=100), 22), [])
    curves = run.utilisation.over_time()
    lines = [
        Line(f"{worker}, {stage}", [(moment, 100 * share) for moment, share in curve], COLOURS[place % len(COLOURS)])
        for place, ((worker, stage), curve) in enumerate(curves.items())
    ]
    if any(len(line.points) > 1 for line in lines):
        svg = chart(lines, Axis("seconds of the run"), Axis("% busy", least_end=100), 200)
        yield Plot(f"Workers over time at {run.name}", svg, _legend(lines), "Workers report twice a second.")


def _timeline(run: Run, legend: Sequence[tuple[str, str]]) -> Plot:
    """The requests of the run's busiest moment: so many in a row, sent within the shortest time."""
    answered = [record for record in run.observed.records if record.error is None and record.timing]
    last = max(0, len(answered) - MOST_ROWS)
    first = min(range(last + 1), key=lambda start: answered[start : start + MOST_ROWS][-1].sent - answered[start].sent)
    shown = answered[first : first + MOST_ROWS]
    rows = [
        Bar("", record.sent - shown[0].sent, [(stage, ms / 1000, STAGE_COLOURS[stage]) for stage, ms in stages(record)])
        for record in shown
    ]
    note = f"The busiest {len(shown)} requests in a row, from {shown[0].sent:.1f} s on; each starts where it was sent."
    svg = bars(rows, Axis("seconds"), 6, left=LEFT_OF_TIMELINE)
    return Plot(f"Timeline of requests at {run.name}", svg, legend, note)


def _legend(lines: Sequence[Line]) -> list[tuple[str, str]]:
    return [(line.name, line.colour) for line in lines]
