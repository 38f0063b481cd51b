"""`easerve bench`: load on a server that runs already, and what came of it."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.plan import Climb, Closed, Load, Plan, Rates
from easerve.bench.workloads import read_workload
from easerve.cli import bench_options as options
from easerve.errors import BadRequest

bench_app = typer.Typer(invoke_without_command=True)
console = Console(stderr=True)

T = TypeVar("T")


@bench_app.callback()
def bench(
    context: typer.Context,
    base_url: Annotated[str, typer.Option(help="Where the server is, with or without /v1.")] = "http://127.0.0.1:8000",
    model: Annotated[str | None, typer.Option(help="Its model (default: the first it lists).")] = None,
    api_key: options.ApiKey = None,
    workload: options.WorkloadName = "image-heavy",
    settings: options.Settings = None,
    seed: options.Seed = None,
    ignore_eos: options.IgnoreEos = True,
    rate: options.Rate = None,
    rates: options.SeveralRates = None,
    sweep: options.Sweep = False,
    concurrency: options.Concurrency = None,
    trace: options.Trace = None,
    bisections: Annotated[
        int,
        typer.Option(
            help="With --sweep or --rates: runs between the last good and the first bad rate.",
            rich_help_panel=options.LOAD,
        ),
    ] = 3,
    arrivals: options.ArrivalsName = "poisson",
    cv: options.Cv = 1.0,
    burst_size: options.BurstSize = 8,
    requests: options.Requests = None,
    duration: options.Duration = None,
    warmup: options.Warmup = 4,
    unloaded: options.Unloaded = 10,
    slo_ttft: options.SloTtft = None,
    slo_tpot: options.SloTpot = None,
    slo_e2e: options.SloE2e = None,
    timeout: options.Timeout = 300.0,
    json_file: options.JsonFile = None,
    html_file: options.HtmlFile = None,
) -> None:
    """Put load on a server and measure what its users would feel: TTFT, TPOT, ITL, E2E, goodput.

    The load is one of --rate, --rates, --sweep, --concurrency and --trace. Example:

    easerve bench --workload image-heavy --rate 3 --requests 100 --json out.json --html out.html

    Ctrl-C ends the load and reports what was done; a second one ends at once. Times in tables are milliseconds.
    """
    if context.invoked_subcommand is not None:
        return
    load = which_load(rate=rate, rates=rates, sweep=sweep, concurrency=concurrency, trace=trace, bisections=bisections)
    plan = Plan(
        workload_name=workload,
        workload=read_workload(workload, settings or ()),
        load=load,
        seed=fresh_seed(seed),
        arrivals=Arrivals("trace" if trace else arrivals, cv, burst_size, trace),
        requests=how_many(requests, duration, trace),
        seconds=duration,
        warmup=warmup,
        unloaded=unloaded,
        objectives=Objectives(slo_ttft, slo_tpot, slo_e2e),
        ignore_eos=ignore_eos,
        timeout=timeout,
    )
    until_interrupted(lambda stop: _bench(plan, base_url, api_key, model, json_file, html_file, stop))


async def _bench(
    plan: Plan,
    base_url: str,
    api_key: str | None,
    model: str | None,
    json_file: Path | None,
    html_file: Path | None,
    stop: asyncio.Event,
) -> None:
    from easerve.bench.document import command_line, document
    from easerve.bench.page import render
    from easerve.bench.run import run_bench
    from easerve.bench.table import show
    from easerve.bench.target import client

    async with client(base_url, api_key) as http:
        report = await run_bench(plan, http, model, console, stop)
    show(report, Console())
    if json_file is not None:
        write(json_file, json.dumps(document(report, command_line()), indent=1, allow_nan=False))
    if html_file is not None:
        write(html_file, render(report, command_line()))


def which_load(
    *,
    rate: float | None,
    rates: str | None,
    sweep: bool,
    concurrency: int | None,
    trace: Path | None,
    bisections: int,
) -> Load:
    """Raises BadRequest unless exactly one kind of load is asked for."""
    loads: list[Load] = []
    if rate is not None:
        loads.append(Rates((rate,)))
    if rates is not None:
        loads.append(Rates(_numbers(rates), bisections))
    if sweep:
        loads.append(Climb(bisections))
    if concurrency is not None:
        loads.append(Closed(concurrency))
    if trace is not None:
        loads.append(Rates((0.0,)))
    if len(loads) != 1:
        raise BadRequest("give one of --rate, --rates, --sweep, --concurrency and --trace")
    return loads[0]


def how_many(requests: int | None, duration: float | None, trace: Path | None) -> int | None:
    """100 where nothing else ends a run."""
    return 100 if requests is None and duration is None and trace is None else requests


def fresh_seed(seed: int | None) -> int:
    """Another each time, so that no run finds in a cache what an earlier one sent; printed, so that it can be given."""
    chosen = secrets.randbits(32) if seed is None else seed
    console.print(f"seed {chosen}", highlight=False)
    return chosen


def until_interrupted(work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """The first Ctrl-C sets the event that `work` is given, the second ends at once, and so does SIGTERM: servers that
    were started are ended too."""

    async def run() -> T:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def interrupt() -> None:
            console.print("stopping; once more to end at once")
            loop.remove_signal_handler(signal.SIGINT)
            stop.set()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        working = loop.create_task(work(stop))
        loop.add_signal_handler(signal.SIGTERM, working.cancel)
        return await working

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except asyncio.CancelledError:
        raise typer.Exit(143) from None


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    console.print(f"written to {path}", soft_wrap=True, highlight=False)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(one) for one in text.split(","))
    except ValueError:
        raise BadRequest(f"--rates takes numbers such as 1,2,4, not {text!r}") from None
