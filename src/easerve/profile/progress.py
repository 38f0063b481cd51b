"""What a person sees while stages are measured."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from easerve.profile.plan import Plan, Stage


class ProfileProgress:
    """A bar per stage on a terminal; elsewhere a line as each begins. Points that are left out end a bar early."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console, self._plan = console, plan
        self._lines: dict[Stage, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description:9}"),
            BarColumn(),
            TextColumn("[dim]{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> ProfileProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def measured(self, stage: Stage, point: Any) -> None:
        if stage not in self._lines:
            for line in self._lines.values():
                self._progress.update(line, total=self._progress.tasks[line].completed)
            if not self._console.is_terminal:
                self._console.print(f"measuring {stage}", highlight=False)
            self._lines[stage] = self._progress.add_task(stage, total=self._plan.points(stage), state="")
        self._progress.update(self._lines[stage], advance=1, state=f"{point.seconds * 1e3:.3g} ms")
