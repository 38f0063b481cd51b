"""A search on a terminal. Times are milliseconds, rates requests a second."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE
from rich.table import Table

from easerve.bench.table import milliseconds
from easerve.search.explore import Tried
from easerve.search.outcome import Objective, Outcome
from easerve.search.prune import Verdict
from easerve.search.stopping import best_first

SHOWN = 8  # trials


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """Stage one: every allocation, and why it was dropped."""
    dropped = sum(bool(one.dropped) for one in verdicts)
    table = _table(f"Allocations: {len(verdicts) - dropped} kept, {dropped} dropped, by the load of their bottleneck")
    for heading in ("allocation", "load", "bottleneck", "balanced at"):
        table.add_column(heading, no_wrap=True)
    table.add_column("dropped because")
    for one in verdicts:
        style = "dim" if one.dropped else "bold"
        chosen = one.balanced.candidate
        where = f"B {chosen.batch}" + (f", s {chosen.ratio:.2f}" if chosen.ratio < 1 else "")
        table.add_row(
            str(one.allocation), f"{one.balanced.load:.2f}", one.balanced.bottleneck, where, one.dropped, style=style
        )
    return table


def trial_table(tried: Sequence[Tried], objective: Objective, reason: str) -> Table:
    """The best trials."""
    order = best_first([one.outcome for one in tried], objective)[:SHOWN]
    table = _outcomes(f"Trials: {len(tried)}, ended by {reason}; the best by {objective}")
    for place in order:
        table.add_row(str(tried[place].candidate), *outcome_cells(tried[place].outcome))
    return table


def finals_table(finals: Sequence[Tried]) -> Table:
    """The finalists on fresh seeds."""
    table = _outcomes("Finalists on fresh seeds")
    for place, one in enumerate(finals):
        table.add_row(str(one.candidate), *outcome_cells(one.outcome), style="" if place else "bold")
    return table


def outcome_cells(one: Outcome) -> list[str]:
    return [f"{one.goodput:.2f}", f"{one.throughput:.2f}", milliseconds(one.ttft), milliseconds(one.tpot)]


def add_outcome_columns(table: Table) -> None:
    for heading in ("goodput\nreq/s", "answered\nreq/s", "mean\nTTFT ms", "mean\nTPOT ms"):
        table.add_column(heading, justify="right", no_wrap=True)


def _outcomes(title: str) -> Table:
    table = _table(title)
    table.add_column("candidate")
    add_outcome_columns(table)
    return table


def _table(title: str) -> Table:
    return Table(title=title, box=SIMPLE, title_justify="left")
