"""What `easerve simulate --scenario` does, and what a person sees of it."""

from __future__ import annotations

import json

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from easerve.scenarios.library import find_scenario, scenarios
from easerve.scenarios.play import Played


def list_scenarios(console: Console) -> None:
    """Names, and what they are of."""
    table = Table(box=SIMPLE)
    for title in ("scenario", "what", "reported by"):
        table.add_column(title, no_wrap=title == "scenario")
    for name, scenario in scenarios().items():
        table.add_row(name, scenario.title, scenario.source)
    console.print(table, highlight=False)


def play_scenario(name: str, seed: int, requests: int | None, console: Console, progress: Console) -> str:
    """A table on `console`. The rows as one JSON object. Raises BadRequest for a name that is none."""
    played = Played(
        find_scenario(name), seed, requests, watch=lambda side: progress.print(f"  {side}", highlight=False)
    )
    document = json.dumps(played.as_json(), allow_nan=False)
    _show(played, console)
    return document


def _show(played: Played, console: Console) -> None:
    scenario = played.scenario
    console.print(f"[bold]{scenario.title}[/] ({scenario.source})", highlight=False)
    table = Table(box=SIMPLE)
    table.add_column("row")
    for title in ("reported", "simulated", "ratio"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("constants")
    for outcome in played.outcomes:
        limit = outcome.row.bound or ""
        table.add_row(
            outcome.row.name, f"{limit}{outcome.row.reported:.3g}", f"{outcome.simulated:.3g}", f"{outcome.ratio:.2f}",
            "held out" if outcome.held_out else "fitted to it",
        )  # fmt: skip
    console.print(table, highlight=False)
    for order in played.orders:
        console.print(f"{order.better} before {order.worse}: [bold]{order.verdict}[/]", highlight=False)
    for remark in scenario.remarks:
        console.print(f"- {remark}", highlight=False)
    for assumption in scenario.assumed:
        console.print(f"[dim]assumed: {assumption}", highlight=False)
