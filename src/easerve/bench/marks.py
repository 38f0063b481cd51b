"""A page of which a part is written by a program, between two lines that mark it."""

from __future__ import annotations

from pathlib import Path


def put_between(page: Path, begin: str, end: str, text: str) -> None:
    """Put `text` between the marks, in place of what is there. Raises ValueError if the page lacks one."""
    head, begun, rest = page.read_text(encoding="utf-8").partition(begin)
    _, ended, tail = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{page} lacks the lines {begin!r} and {end!r}")
    page.write_text(f"{head}{begun}\n\n{text}\n{ended}{tail}", encoding="utf-8")
