"""What a simulation says on a terminal beside the benchmark's report."""

from __future__ import annotations

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from easerve.bench.report import Report
from easerve.simulate.run import Simulation


def show_world(simulation: Simulation, console: Console) -> None:
    """Every figure that follows is simulated: of what, and from which costs."""
    console.print(f"[bold]simulated[/] {simulation.deployment.model} on {simulation.world.name}", highlight=False)
    for plan in simulation.plans():
        console.print(f"  {plan.name}: {' + '.join(plan.stages)} on device {plan.device}", highlight=False)
    for source in sorted(set(simulation.world.sources.values())):
        console.print(f"  [dim]costs: {source}", highlight=False)


def utilisation(report: Report, console: Console) -> None:
    """The part of each run for which each stage of each worker was at work."""
    keys = sorted({key for run in report.runs for key in run.utilisation.overall()})
    if not keys:
        return
    table = Table(title="Busy share of the run", box=SIMPLE, title_justify="left")
    for column in ("worker", "stage"):
        table.add_column(column, no_wrap=True)
    for run in report.runs:
        table.add_column(run.name, justify="right", no_wrap=True)
    for key in keys:
        table.add_row(*key, *(f"{run.utilisation.overall().get(key, 0.0):.1%}" for run in report.runs))
    console.print(table, highlight=False)
