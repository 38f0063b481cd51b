"""Lines that change in place, for a person who waits."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, ProgressColumn, TimeElapsedColumn


class LiveLines:
    """Lines of `columns` and the time each has taken, on a terminal and while the block lasts.

    Elsewhere nothing is shown of them, and `on_terminal` tells subclasses to print plain lines instead.
    """

    def __init__(self, console: Console, *columns: ProgressColumn) -> None:
        self.on_terminal = console.is_terminal
        self._console = console
        self._lines = Progress(*columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal)

    def __enter__(self) -> Self:
        self._lines.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.stop()
