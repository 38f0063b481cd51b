"""`easerve config`: deployment files, looked at without starting anything."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from easerve.config import (
    SHAPE,
    Deployment,
    WorkerEntry,
    describe,
    model_problems,
    plan_workers,
    problems,
    read_deployment,
    write_deployment,
)


def effective(deployment: Deployment) -> Table:
    """What a deployment comes to on this machine."""
    table = Table.grid(padding=(0, 2))
    for name, value in describe(deployment).items():
        table.add_row(f"[bold]{name}", value)
    return table


def check_file(file: Path, console: Console) -> bool:
    """Raises StartupError for what cannot be read as a deployment."""
    deployment = read_deployment(file)
    faults = [*model_problems(deployment), *problems(deployment)]
    for fault in faults:
        console.print(f"[red]error:[/] {escape(f'{file}: {fault}')}", soft_wrap=True, highlight=False)
    if not faults:
        console.print(effective(deployment))
        console.print("[green]fine")
    return not faults


def write_file(deployment: Deployment, file: Path, console: Console) -> None:
    """The workers of a topology become a list, so that they can be changed one by one. Keys are left out."""
    workers = tuple(
        WorkerEntry(name=plan.name, stages=plan.stages, device=str(plan.device)) for plan in plan_workers(deployment)
    )
    rest = deployment.model_dump(exclude={*SHAPE, "api_keys"}, exclude_defaults=True)
    write_deployment(Deployment(**rest | {"workers": workers}), file)
    console.print(f"written to {file}; start it with: easerve serve --config {file}", soft_wrap=True, highlight=False)
