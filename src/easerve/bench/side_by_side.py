"""A comparison on a terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from easerve.bench.comparison import Comparison, Spread
from easerve.bench.document import heading, objectives_json, run_json
from easerve.bench.objectives import EVERY
from easerve.bench.table import client_warning, words


def show_comparison(found: Comparison, console: Console) -> None:
    """Medians over the rounds, with the lowest and the highest round; ratios are taken within rounds."""
    if found.objectives is not None:
        text = "; ".join(f"{name} {words(one)}" for name, one in found.objectives.items())
        console.print(f"objectives ({found.objectives_source}): {text}", highlight=False)
    others = [name for name in found.runs if name != found.first]
    table = Table(title="Median of the rounds (lowest to highest)", box=SIMPLE, title_justify="left")
    table.add_column("", no_wrap=True)
    for name in found.runs:
        table.add_column(name, justify="right", overflow="fold")
    for name in others:
        table.add_column(f"{name}\n/ {found.first}", justify="right", style="bold", overflow="fold")
    last = EVERY
    for group, metric, values, ratios in found.rows():
        if group != last:
            table.add_section()
        label = metric if group == EVERY else f"{group}: {metric}"
        table.add_row(label, *map(str, values.values()), *(str(ratios.get(name, "-")) for name in others))
        last = group
    console.print(table)
    for name, runs in found.runs.items():
        failed = sum(run.all.requests - run.all.completed for run in runs)
        if failed:
            kinds = sorted({kind for run in runs for kind in run.all.errors})
            console.print(f"{name}: {failed} errors ({', '.join(kinds)})", highlight=False)
        for run in runs:
            if run.slow_client:
                console.print(f"[yellow]beware, slow load generator:[/] {name}, {client_warning(run)}", highlight=False)


def comparison_document(found: Comparison, command: str) -> dict[str, Any]:
    """Everything; times are seconds, but for the metrics named in ms."""
    return {
        **heading(command),
        "plan": found.plan.as_json(),
        "interrupted": found.interrupted,
        "objectives": found.objectives
        and {"source": found.objectives_source, "first_server": found.first, **objectives_json(found.objectives)},
        "servers": {name: asdict(target) for name, target in found.targets.items()},
        "compared": [
            {
                "group": group,
                "metric": metric,
                "values": {name: _spread(one) for name, one in values.items()},
                "ratios": {name: _spread(one) for name, one in ratios.items()},
            }
            for group, metric, values, ratios in found.rows()
        ],
        "runs": {name: [run_json(run) for run in runs] for name, runs in found.runs.items()},
    }


def _spread(one: Spread) -> dict[str, Any]:
    return {"median": one.middle, "by_round": list(one.values)}
