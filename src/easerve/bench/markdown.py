"""Tables as Markdown, for pages that a program writes a part of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Its lines. Each row has as many cells as there are columns."""
    yield _line(columns)
    yield "|---" * len(columns) + "|"
    yield from map(_line, rows)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
