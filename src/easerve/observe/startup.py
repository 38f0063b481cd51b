"""What a person sees while workers load: one line each, with what it is doing and for how long."""

from __future__ import annotations

from rich.console import Console
from rich.progress import SpinnerColumn, TaskID, TextColumn

from easerve.observe.live import LiveLines


class StartupProgress(LiveLines):
    """A live line per worker on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        doing = TextColumn("{task.fields[worker]}"), TextColumn("[dim]{task.description}")
        super().__init__(console, SpinnerColumn(finished_text="[green]✓"), *doing)
        self._workers: dict[str, TaskID] = {}

    def report(self, worker: str, text: str) -> None:
        if not self.on_terminal:
            self._console.print(f"{worker}: {text}")
            return
        if worker not in self._workers:
            self._workers[worker] = self._lines.add_task(text, worker=worker, total=1)
        done = 1 if text.startswith("ready") else 0
        self._lines.update(self._workers[worker], description=text, completed=done)
