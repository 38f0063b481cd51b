"""Runs several servers under the same plan, in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from easerve.bench.comparison import Comparison
from easerve.bench.launch import launched
from easerve.bench.plan import Closed, Plan, Rates
from easerve.bench.progress import BenchProgress
from easerve.bench.report import Run
from easerve.bench.session import Session
from easerve.bench.target import client, discover
from easerve.bench.wire import HttpWire
from easerve.errors import BadRequest


@dataclass(frozen=True)
class Contender:
    """A server by its URL, or by a command with `{port}` in it."""

    name: str
    source: str

    @classmethod
    def of(cls, text: str) -> Contender:
        """From NAME=COMMAND or NAME=URL."""
        name, sign, source = text.partition("=")
        if not sign or not source.strip() or not name.replace("-", "_").isidentifier():
            raise BadRequest(f"{text!r} names no server: write NAME=URL or NAME=COMMAND with {{port}} in it")
        return cls(name, source.strip())

    @property
    def runs_already(self) -> bool:
        return self.source.startswith(("http://", "https://"))


@dataclass(frozen=True)
class Terms:
    """`cores` are those that servers started here share; logs go to `logs`. All servers are up throughout, and only
    one at a time has load."""

    rounds: int
    cores: Sequence[int]
    logs: Path
    patience: float
    api_key: str | None = None


async def compare(
    plan: Plan, contenders: Sequence[Contender], terms: Terms, console: Console, stop: asyncio.Event
) -> Comparison:
    """The same requests at the same moments for each server of a round; every other round in reverse order.

    Without given objectives, those of the first server's moderate tier hold for all.
    """
    if len({one.name for one in contenders}) < 2 or len({one.name for one in contenders}) < len(contenders):
        raise BadRequest("a comparison needs two or more servers, each with a name of its own")
    if not isinstance(plan.load, Closed) and not (isinstance(plan.load, Rates) and len(plan.load.rates) == 1):
        raise BadRequest("a comparison is made at one rate or one concurrency")
    runs: dict[str, list[Run]] = {one.name: [] for one in contenders}
    async with AsyncExitStack() as exits:
        sessions = {one.name: await _session(one, plan, terms, console, stop, exits) for one in contenders}
        with BenchProgress(console) as progress:
            await _prepare(sessions, plan, progress, stop)
            for turn in range(terms.rounds):
                order = list(sessions) if turn % 2 == 0 else list(reversed(sessions))
                for name in order:
                    if not stop.is_set():
                        runs[name].append(await _round(sessions[name], plan, turn, name, progress))
    first = sessions[contenders[0].name]
    targets = {name: session.target for name, session in sessions.items()}
    return Comparison(plan, targets, first.objectives, first.objectives_source, runs, stop.is_set())


async def _session(
    one: Contender, plan: Plan, terms: Terms, console: Console, stop: asyncio.Event, exits: AsyncExitStack
) -> Session:
    url = one.source
    if not one.runs_already:
        console.print(f"{one.name}: starting", highlight=False)
        log = terms.logs / f"{one.name}.log"
        url = await exits.enter_async_context(launched(one.source, terms.cores, log, terms.patience))
    http = await exits.enter_async_context(client(url, terms.api_key))
    target = await discover(http, None)
    wire = HttpWire(http, target, ignore_eos=plan.ignore_eos, timeout=plan.timeout)
    return Session(wire, target, plan, stop)


async def _prepare(sessions: dict[str, Session], plan: Plan, progress: BenchProgress, stop: asyncio.Event) -> None:
    first = next(iter(sessions.values()))
    for name, session in sessions.items():
        if stop.is_set():
            return
        progress.note(f"{name}: warm-up")
        await session.warm_up()
    if plan.unloaded and not stop.is_set():
        await first.measure_unloaded()
    for session in sessions.values():
        session.tiers = first.tiers


async def _round(session: Session, plan: Plan, turn: int, name: str, progress: BenchProgress) -> Run:
    purpose, title = f"round {turn + 1}", f"round {turn + 1}, {name}"
    line = progress.load(title, plan.requests)
    if isinstance(plan.load, Closed):
        return await session.at_concurrency(plan.load.concurrency, purpose, line)
    assert isinstance(plan.load, Rates)
    return await session.at_rate(plan.load.rates[0], purpose, line)
