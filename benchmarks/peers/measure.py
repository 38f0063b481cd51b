"""One row of the table: its servers in turns under the same requests, round by round.

Every round has a seed of its own, and with it pictures and moments of its own. Both sides of a round get the same ones;
they share no cache. Ratios are taken within rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from contenders import Machine, command
from rich.console import Console
from rows import OBJECTIVES, Row, Wanted

from easerve.bench.compare import Contender, Terms, compare
from easerve.bench.comparison import METRICS, Spread
from easerve.bench.document import document
from easerve.bench.launch import launched
from easerve.bench.plan import Climb, Plan
from easerve.bench.report import Report, Run
from easerve.bench.run import run_bench
from easerve.bench.side_by_side import comparison_document
from easerve.bench.target import client
from easerve.bench.workloads import read_workload

Rounds = Mapping[str, Sequence[float]]  # by server: a figure a round


@dataclass(frozen=True)
class Found:
    """What one wanted ratio came to."""

    wanted: Wanted
    ours: Spread
    theirs: Spread
    ratio: Spread

    @classmethod
    def of(cls, wanted: Wanted, ours: Sequence[float], theirs: Sequence[float]) -> Found:
        ratios = [mine / other if other else float("inf") for mine, other in zip(ours, theirs, strict=True)]
        return cls(wanted, Spread(ours), Spread(theirs), Spread(ratios))


@dataclass(frozen=True)
class Measured:
    """`late` are servers beside which the load generator got no core in time, so that their figures are not theirs
    alone; `knees` the rates at which each was judged, where they were searched for."""

    found: Sequence[Found]
    documents: Any
    late: Sequence[str]
    knees: Rounds | None = None


async def measure(
    row: Row, machine: Machine, terms: Terms, *, seed: int, requests: int, console: Console, stop: asyncio.Event
) -> Measured:
    plan = Plan(
        workload_name=row.workload,
        workload=read_workload(row.workload),
        load=row.load,
        seed=seed,
        requests=None if row.seconds else requests,
        seconds=row.seconds,
        warmup=8,
        unloaded=4 if isinstance(row.load, Climb) else 0,
        objectives=OBJECTIVES,
    )
    contenders = [Contender(name, command(name, machine)) for name in (*row.peers, row.ours)]
    if isinstance(row.load, Climb):
        return await _at_knees(row, plan, contenders, terms, console, stop)
    return await _under_load(row, plan, contenders, terms, console, stop)


async def _under_load(
    row: Row, plan: Plan, contenders: Sequence[Contender], terms: Terms, console: Console, stop: asyncio.Event
) -> Measured:
    comparison = await compare(plan, contenders, terms, console, stop)
    found = []
    for wanted in row.wanted:
        rounds = {
            name: [METRICS[wanted.metric](run.groups[wanted.group]) or 0.0 for run in runs]
            for name, runs in comparison.runs.items()
        }
        found.append(Found.of(wanted, rounds[row.ours], rounds[wanted.peer]))
    return Measured(found, comparison_document(comparison, ""), _late(comparison.runs))


async def _at_knees(
    row: Row, plan: Plan, contenders: Sequence[Contender], terms: Terms, console: Console, stop: asyncio.Event
) -> Measured:
    """Each server at the highest rate that it could take; nothing else can be said of a server without one."""
    reports: dict[str, list[Report]] = {one.name: [] for one in contenders}
    async with AsyncExitStack() as exits:
        urls = {}
        for one in contenders:
            console.print(f"{one.name}: starting", highlight=False)
            log = terms.logs / f"{one.name}.log"
            urls[one.name] = await exits.enter_async_context(launched(one.source, terms.cores, log, terms.patience))
        for turn in range(terms.rounds):
            for name in list(urls) if turn % 2 == 0 else list(reversed(urls)):
                console.print(f"round {turn + 1}, {name}: looking for its knee", highlight=False)
                async with client(urls[name], None) as http:
                    seeded = replace(plan, seed=plan.seed + turn)
                    reports[name].append(await run_bench(seeded, http, None, console, stop))
    knees = {name: [report.knee or 0.0 for report in several] for name, several in reports.items()}
    goodput = {name: [_at_knee(report) for report in several] for name, several in reports.items()}
    found = [Found.of(wanted, goodput[row.ours], goodput[wanted.peer]) for wanted in row.wanted]
    runs = {name: [run for report in several for run in report.runs] for name, several in reports.items()}
    documents = {name: [document(one, "") for one in several] for name, several in reports.items()}
    return Measured(found, documents, _late(runs), knees)


def _late(runs: Mapping[str, Sequence[Run]]) -> list[str]:
    return [name for name, several in runs.items() if any(run.slow_client for run in several)]


def _at_knee(report: Report) -> float:
    """Goodput there; 0 where no rate was good."""
    best = [run.all.good.goodput for run in report.runs if run.rate == report.knee and run.all.good is not None]
    return best[0] if best else 0.0
