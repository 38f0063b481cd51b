"""What a person sees while workers load: one line each, with what it is doing and for how long."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn


class StartupProgress:
    """A live line per worker on a terminal, plain lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.fields[worker]}"),
            TextColumn("[dim]{task.description}"),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._lines: dict[str, TaskID] = {}

    def __enter__(self) -> StartupProgress:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def report(self, worker: str, text: str) -> None:
        if not self._console.is_terminal:
            self._console.print(f"{worker}: {text}")
            return
        if worker not in self._lines:
            self._lines[worker] = self._progress.add_task(text, worker=worker, total=1)
        done = 1 if text == "ready" else 0
        self._progress.update(self._lines[worker], description=text, completed=done)
