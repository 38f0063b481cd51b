"""A profile on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from easerve.costs.profile_file import Profile, ServerTime

Cells = dict[tuple[int, int], float]  # seconds by row and column


def show(profile: Profile, console: Console) -> None:
    """Medians in milliseconds, a table per stage."""
    console.print(f"{profile.model.name} on {profile.machine.processor} ({profile.machine.device})", highlight=False)
    for table in _tables(profile):
        console.print(table)


def _tables(profile: Profile) -> Iterator[Table]:
    if profile.encode:
        cells = {(one.patches, one.batch): one.seconds for one in profile.encode}
        yield _grid("encode, ms: patches, batch", cells)
    if profile.prefill:
        cells = {(one.new, one.context): one.seconds for one in profile.prefill}
        yield _grid("prefill, ms: new, context", cells)
    if profile.decode:
        cells = {(one.sequences, one.context): one.seconds for one in profile.decode}
        yield _grid("decode, ms: sequences, context", cells)
    if profile.transfer:
        table = _bare(f"transfer over {profile.transfer_kind}", ["bytes", "ms", "GB/s"])
        for one in profile.transfer:
            table.add_row(f"{one.nbytes:,}", _milliseconds(one.seconds), f"{one.nbytes / one.seconds / 1e9:.2f}")
        yield table
    if profile.server != ServerTime():
        table = _bare("a server adds, CPU ms", ["request", "picture", "megapixel", "token", "step"])
        server = profile.server
        seconds = (server.request, server.picture, server.pixel * 1e6, server.token, server.step)
        table.add_row(*map(_milliseconds, seconds))
        yield table
    if profile.slowdown:
        table = _bare("slowed down by other cores", ["stage", "beside", "times as long"])
        for pair in profile.slowdown:
            table.add_row(pair.stage, pair.beside, f"{pair.factor:.2f}")
        yield table


def _grid(title: str, cells: Cells) -> Table:
    rows, columns = _sorted(row for row, _ in cells), _sorted(column for _, column in cells)
    table = _bare(title, ["", *map(str, columns)])
    for row in rows:
        table.add_row(str(row), *(_milliseconds(cells.get((row, column))) for column in columns))
    return table


def _bare(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e3:.3g}"


def _sorted(values: Iterable[int]) -> list[int]:
    return sorted(set(values))
