"""A report as one self-contained HTML page."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from easerve.bench.knee import NEEDED
from easerve.bench.objectives import TIERS
from easerve.bench.plots import plots
from easerve.bench.report import Report
from easerve.bench.table import client_warning, milliseconds, words


def render(report: Report, command: str) -> str:
    """The page as text; nothing in it is loaded from elsewhere."""
    template = files("easerve.bench").joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["ms"] = lambda seconds: "-" if seconds is None else milliseconds(seconds)
    return environment.from_string(template).render(
        report=report,
        command=command,
        plan=report.plan.as_json(),
        tiers=TIERS,
        needed=NEEDED,
        words=words,
        warnings=[client_warning(run) for run in report.runs if run.slow_client],
        plots=[(plot, Markup(plot.svg)) for plot in plots(report)] if report.runs else [],
    )
