"""What a person sees while stages are measured."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn

from easerve.observe.live import LiveLines
from easerve.profile.plan import Plan, Stage


class ProfileProgress(LiveLines):
    """A bar per stage on a terminal; elsewhere a line as each begins. Points that are left out end a bar early."""

    def __init__(self, console: Console, plan: Plan) -> None:
        super().__init__(
            console, TextColumn("{task.description:9}"), BarColumn(), TextColumn("[dim]{task.fields[state]}")
        )
        self._plan = plan
        self._stages: dict[Stage, TaskID] = {}

    def measured(self, stage: Stage, point: Any) -> None:
        if stage not in self._stages:
            for line in self._stages.values():
                self._lines.update(line, total=self._lines.tasks[line].completed)
            if not self.on_terminal:
                self._console.print(f"measuring {stage}", highlight=False)
            self._stages[stage] = self._lines.add_task(stage, total=self._plan.points(stage), state="")
        self._lines.update(self._stages[stage], advance=1, state=f"{point.seconds * 1e3:.3g} ms")
