"""`easerve bench compare`: servers in turns under the same load."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.plan import Plan
from easerve.bench.workloads import read_workload
from easerve.cli import bench_options as options
from easerve.cli import benching
from easerve.errors import BadRequest

if TYPE_CHECKING:
    from easerve.bench.compare import Contender, Terms


def compare(
    server: Annotated[
        list[str],
        typer.Option(help="NAME=URL, or NAME=COMMAND with {port} in it, which is started. The first is the baseline."),
    ],
    rounds: Annotated[int, typer.Option(help="Runs of each server, in turns.", min=1)] = 3,
    cores: Annotated[str, typer.Option(help="Cores that started servers share, as in 0,1 (default: all).")] = "",
    logs: Annotated[Path, typer.Option(help="Folder for the output of started servers.")] = Path("runs/compare"),
    startup_timeout: Annotated[float, typer.Option(help="Longest wait for a server to be up, in seconds.")] = 600.0,
    api_key: options.ApiKey = None,
    workload: options.WorkloadName = "image-heavy",
    settings: options.Settings = None,
    seed: options.Seed = None,
    ignore_eos: options.IgnoreEos = True,
    rate: Annotated[float | None, typer.Option(help="Requests a second.")] = None,
    concurrency: Annotated[int | None, typer.Option(help="Closed loop: requests in flight.", min=1)] = None,
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
) -> None:
    """Put the same load on several servers, in turns, and show ratios with their spread.

    The load is one of --rate and --concurrency. Example:

    easerve bench compare --rate 3 --server "ours=easerve serve --port {port}" --server theirs=http://127.0.0.1:9000
    """
    from easerve.bench.compare import Contender, Terms

    load = benching.which_load(
        rate=rate, rates=None, sweep=False, concurrency=concurrency, trace=None, bisections=0
    )  # fmt: skip
    plan = Plan(
        workload_name=workload,
        workload=read_workload(workload, settings or ()),
        load=load,
        seed=benching.fresh_seed(seed),
        arrivals=Arrivals(arrivals, cv, burst_size),
        requests=benching.how_many(requests, duration, None),
        seconds=duration,
        warmup=warmup,
        unloaded=unloaded,
        objectives=Objectives(slo_ttft, slo_tpot, slo_e2e),
        ignore_eos=ignore_eos,
        timeout=timeout,
    )
    contenders = [Contender.of(one) for one in server]
    terms = Terms(rounds, _cores(cores), logs, startup_timeout, api_key)
    benching.until_interrupted(lambda stop: _compare(plan, contenders, terms, json_file, stop))


async def _compare(
    plan: Plan, contenders: Sequence[Contender], terms: Terms, json_file: Path | None, stop: asyncio.Event
) -> None:
    from easerve.bench.compare import compare as run_all
    from easerve.bench.document import command_line
    from easerve.bench.side_by_side import comparison_document, show_comparison

    found = await run_all(plan, contenders, terms, benching.console, stop)
    show_comparison(found, Console())
    if json_file is not None:
        benching.write(json_file, json.dumps(comparison_document(found, command_line()), indent=1, allow_nan=False))


def _cores(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(core) for core in text.split(",") if core.strip())
    except ValueError:
        raise BadRequest(f"--cores takes numbers such as 0,1, not {text!r}") from None
