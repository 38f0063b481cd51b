"""A search as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import accumulate
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from easerve.bench.svg import COLOURS, Axis, Bar, Line, bars, chart
from easerve.bench.table import milliseconds
from easerve.search.explore import Tried
from easerve.search.outcome import Objective
from easerve.search.prune import Verdict
from easerve.search.tuning import Findings

POOLS = ("encode", "local prefill", "prefill", "decode", "prefill/decode", "all")
MOST_BARS = 24


def render(found: Mapping[str, Any], verdicts: Sequence[Verdict], findings: Findings) -> str:
    """The page as text; nothing in it is loaded from elsewhere. `found` is the search as JSON."""
    template = files("easerve.search").joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["ms"] = lambda seconds: "-" if seconds is None else milliseconds(seconds)
    return environment.from_string(template).render(
        found=found,
        plots=[(title, Markup(svg), note) for title, svg, note in _plots(verdicts, findings)],
        legend=list(zip(POOLS, COLOURS, strict=False)),
    )


def _plots(verdicts: Sequence[Verdict], findings: Findings) -> Iterator[tuple[str, str, str]]:
    yield "Trials", _trials(findings.tried, findings.objective), "Dots: each trial. Line: the best so far."
    yield "Bottlenecks of allocations", _loads(verdicts), "Load of the bottleneck where it is least; faded: dropped."


def _trials(tried: Sequence[Tried], objective: Objective) -> str:
    values = [getattr(one.outcome, objective) for one in tried]
    best = list(accumulate(values, max))
    lines = [
        Line("best so far", list(enumerate(best, 1)), COLOURS[0]),
        *(Line(str(one.candidate), [(place, value)], COLOURS[1], dots=True)
          for place, (one, value) in enumerate(zip(tried, values, strict=True), 1)),
    ]  # fmt: skip
    return chart(lines, Axis("trial"), Axis(f"{objective}, req/s"))


def _loads(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for one in verdicts[:MOST_BARS]:
        colour = COLOURS[POOLS.index(one.balanced.bottleneck)]
        faded = colour + "55" if one.dropped else colour
        rows.append(Bar(str(one.allocation), 0.0, [(one.balanced.bottleneck, one.balanced.load, faded)]))
    return bars(rows, Axis("load of the bottleneck (1: all it can do)"), 16)
