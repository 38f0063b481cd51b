"""The demo as one self-contained HTML page: pictures, answers, and a bar per stage."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment

from easerve.demo.report import STAGES, Report

COLOURS = {
    "decode_media": "#8d6e63",
    "encode_queue": "#b0bec5",
    "encode": "#1e88e5",
    "transfer": "#8e24aa",
    "prefill_queue": "#cfd8dc",
    "prefill": "#fb8c00",
    "hand_over": "#6d4c41",
    "decode": "#43a047",
}


def render(report: Report) -> str:
    """The page as text; nothing in it is loaded from elsewhere."""
    template = files("easerve.demo").joinpath("page.html.jinja").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    widest = max((one.times.get("total", 0.0) for one in report.asked), default=0.0) or 1.0
    return environment.from_string(template).render(
        report=report, bars=[_bars(one.times) for one in report.asked], colours=COLOURS, widest=widest
    )


def _bars(times: dict[str, float]) -> list[tuple[str, float]]:
    """(stage, milliseconds) in the order of a request's life; decode is what follows the first token."""
    known = [(stage, times.get(stage, 0.0)) for stage in STAGES]
    return [*known, ("decode", round(max(0.0, times.get("total", 0.0) - times.get("first_token", 0.0)), 3))]
