"""What a person sees while load runs: a bar, what is in flight, errors, and the latest TTFT."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from easerve.bench.record import Record
from easerve.observe.live import LiveLines


class BenchProgress(LiveLines):
    """A live line per load on a terminal; elsewhere a plain line as each load begins."""

    def __init__(self, console: Console) -> None:
        bar = BarColumn(bar_width=None), MofNCompleteColumn()
        super().__init__(console, TextColumn("{task.description}"), *bar, TextColumn("[dim]{task.fields[state]}"))

    def load(self, name: str, requests: int | None) -> LoadLine:
        """The line of a load that begins now; `requests` None where their number is not known."""
        if not self.on_terminal:
            self.note(name)
        return LoadLine(self._lines, self._lines.add_task(name, total=requests, state=""))

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False)


class LoadLine:
    """The watcher of one load."""

    def __init__(self, progress: Progress, line: TaskID) -> None:
        self._progress = progress
        self._line = line
        self._in_flight = 0
        self._errors = 0
        self._ttft = ""

    def left(self) -> None:
        self._in_flight += 1

    def ended(self, record: Record) -> None:
        self._in_flight -= 1
        if record.error is None:
            self._ttft = f", TTFT {record.ttft * 1000:.0f} ms"
        else:
            self._errors += 1
        errors = f", {self._errors} errors" if self._errors else ""
        self._progress.update(self._line, advance=1, state=f"{self._in_flight} in flight{self._ttft}{errors}")
