"""What `easerve tune` and `easerve advise` do, and what a person sees of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from easerve.bench.document import command_line
from easerve.config import write_deployment
from easerve.search import table as tables
from easerve.search.advice import Side, compare, reasons
from easerve.search.breakeven import ITEMS, OUTPUTS, gains
from easerve.search.deploying import deployment
from easerve.search.document import advice_document, document
from easerve.search.explore import FINALISTS, FRESH_SEEDS, Tried, Watch
from easerve.search.live import LiveTrial
from easerve.search.methods import Method
from easerve.search.notes import heading, notes
from easerve.search.outcome import Objective, Trial
from easerve.search.page import render
from easerve.search.prune import prune
from easerve.search.question import Prepared, Question
from easerve.search.study import Study
from easerve.search.tuning import tune

LOGS = Path("runs/tune")


@dataclass(frozen=True)
class Wanted:
    """How to search, and where to write what is found."""

    method: Method
    objective: Objective
    trials: int
    seed: int
    study: Path | None
    live: bool
    out: Path
    report: Path


def run_tune(question: Question, wanted: Wanted, console: Console, progress: Console) -> dict[str, Any]:
    """Tables go to `console`. The search as JSON."""
    prepared = _prepare(question, progress)
    verdicts = prune(prepared.model, prepared.space, prepared.requests)
    console.print(tables.verdict_table(verdicts))
    trial: Trial = LiveTrial(prepared.load, question.machine, prepared.base, LOGS) if wanted.live else prepared.trial()
    if wanted.study is not None:
        trial = Study(trial, wanted.study, {**prepared.as_json(), "live": wanted.live})
    runs = None if wanted.method == "exhaustive" else wanted.trials + FINALISTS * FRESH_SEEDS
    with _watching(progress, runs) as watch:
        findings = tune(
            wanted.method, prepared.space, verdicts, trial, wanted.objective,
            trials=wanted.trials, seed=wanted.seed, watch=watch,
        )  # fmt: skip
    console.print(tables.trial_table(findings.tried, wanted.objective, findings.reason))
    console.print(tables.finals_table(findings.finals))
    chosen = findings.best.candidate
    made = deployment(chosen, question.machine, prepared.demand, prepared.base)
    beware = list(notes(prepared, findings.best, made))
    write_deployment(made, wanted.out, comment="\n".join([heading(prepared, chosen), *beware]))
    found = document(prepared.as_json(), verdicts, findings, command_line(), beware)
    found |= {"costs": prepared.cost_source(), "live": wanted.live, "file": str(wanted.out)}
    wanted.report.write_text(render(found, verdicts, findings), encoding="utf-8")
    _tell(
        progress, f"[bold]{chosen}[/]", f"{wanted.out} (easerve serve --config {wanted.out}), {wanted.report}", beware
    )
    return found


def run_advise(question: Question, console: Console, progress: Console) -> dict[str, Any]:
    """Tables go to `console`. The advice as JSON."""
    prepared = _prepare(question, progress)
    _note(progress, "trying the best-balanced deployment of each topology in virtual time")
    sides = compare(prepared.model, prepared.space, prepared.trial())
    console.print(_sides(sides))
    said = list(reasons(prepared.model, sides))
    for sentence in said:
        console.print(f"- {sentence}", highlight=False)
    found = gains(prepared.model, prepared.space)
    if found:
        console.print(_gains(found))
    return advice_document(prepared.as_json(), sides, said, found, command_line()) | {"costs": prepared.cost_source()}


def _prepare(question: Question, progress: Console) -> Prepared:
    _note(progress, f"stage times of {question.model} on {question.machine.hardware}")
    prepared = question.prepare()
    shape = prepared.demand.shape
    _note(
        progress,
        f"mean request: {shape.items:.3g} media items of {shape.item.tokens} tokens, {shape.prompt_tokens} prompt and "
        f"{shape.output_tokens} output tokens; {prepared.demand.rate:g} requests a second, {prepared.requests} in a "
        f"trial; times from: {prepared.cost_source()}",
    )
    return prepared


@contextmanager
def _watching(console: Console, runs: int | None) -> Iterator[Watch]:
    """A bar with the latest trial; a plain line for each where there is no terminal."""
    bar = Progress(
        TextColumn("trials"), BarColumn(), MofNCompleteColumn(), TextColumn("[dim]{task.description}"),
        TimeElapsedColumn(), console=console, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        line = bar.add_task("", total=runs)

        def watch(tried: Tried) -> None:
            outcome = tried.outcome
            found = f"{tried.candidate}: goodput {outcome.goodput:.2f}, answered {outcome.throughput:.2f} req/s"
            bar.update(line, advance=1, description=found)
            if not console.is_terminal:
                _note(console, found)

        yield watch


def _sides(sides: list[Side]) -> Table:
    table = Table(title="Topologies side by side (simulated)", box=SIMPLE, title_justify="left")
    table.add_column("topology", no_wrap=True)
    table.add_column("best balanced")
    tables.add_outcome_columns(table)
    table.add_column("bottleneck")
    for place, side in enumerate(sides):
        bottleneck = f"{side.balanced.bottleneck} {side.balanced.load:.0%}"
        table.add_row(
            side.topology, str(side.balanced.candidate), *tables.outcome_cells(side.outcome), bottleneck,
            style="" if place else "bold",
        )  # fmt: skip
    return table


def _gains(found: dict[tuple[int, int], float]) -> Table:
    title = "Sustained rate of the best split over the best without one (by loads; above 1 encode devices pay)"
    table = Table(title=title, box=SIMPLE, title_justify="left")
    table.add_column("output tokens", justify="right")
    for items in ITEMS:
        table.add_column(f"{items} media", justify="right")
    for outputs in OUTPUTS:
        cells = [found.get((items, outputs)) for items in ITEMS]
        table.add_row(str(outputs), *("-" if one is None else f"{one:.2f}" for one in cells))
    return table


def _tell(console: Console, chosen: str, where: str, beware: list[str]) -> None:
    console.print(chosen, highlight=False)
    console.print(f"written: {where}", soft_wrap=True, highlight=False)
    for note in beware:
        console.print(f"[yellow]beware:[/] {note}", soft_wrap=True, highlight=False)


def _note(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False)
