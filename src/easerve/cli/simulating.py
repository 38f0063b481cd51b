"""`easerve simulate`: the benchmark of a deployment in virtual time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.plan import Plan
from easerve.bench.workloads import read_workload
from easerve.cli import bench_options as options
from easerve.cli import benching
from easerve.config import Deployment

if TYPE_CHECKING:
    from easerve.simulate.run import Simulation

WORLD, PUBLISHED = "World", "Published figures"
STDOUT = Path("-")


class SimulateCommand(TyperCommand):
    """`--json` without a file prints."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(_with_file(args)))


def _with_file(args: Sequence[str]) -> Iterator[str]:
    for this, following in zip_longest(args, args[1:], fillvalue=""):
        yield this
        if this == "--json" and (not following or following.startswith("--")):
            yield str(STDOUT)


def simulate(
    deployment: Deployment,
    hardware: Annotated[
        str,
        typer.Option(
            help="What each worker runs on: a100, h100... (a100:8: so many for all), or cpu with --profile.",
            rich_help_panel=WORLD,
        ),
    ] = "h100",
    encode_hardware: Annotated[
        str | None,
        typer.Option(help="What workers that only encode run on (default: --hardware).", rich_help_panel=WORLD),
    ] = None,
    tp: Annotated[int, typer.Option(help="Devices of one worker (tensor parallel).", min=1, rich_help_panel=WORLD)] = 1,
    precision: Annotated[
        str, typer.Option(help="Precision of the weights: bf16, fp8 or nvfp4.", rich_help_panel=WORLD)
    ] = "bf16",
    link: Annotated[
        str,
        typer.Option(
            help="How tensors travel between workers: shm, nvlink, pcie, rdma or tcp; auto: rdma.",
            rich_help_panel=WORLD,
        ),
    ] = "auto",
    profile: Annotated[
        Path | None, typer.Option(help="Stage times measured by easerve profile.", exists=True, rich_help_panel=WORLD)
    ] = None,
    like: Annotated[
        str | None,
        typer.Option(help="Run it as another server would: vllm, vllm-epd or dynamo.", rich_help_panel=WORLD),
    ] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            help="Play this published comparison instead; of the other options, --seed, --requests and --json count.",
            rich_help_panel=PUBLISHED,
        ),
    ] = None,
    names: Annotated[
        bool, typer.Option("--list-scenarios", help="List the published comparisons.", rich_help_panel=PUBLISHED)
    ] = False,
    workload: options.WorkloadName = "image-heavy",
    settings: options.Settings = None,
    seed: Annotated[int, typer.Option(help="Same seed, same report.", rich_help_panel=options.REQUESTS)] = 0,
    rate: options.Rate = None,
    rates: options.SeveralRates = None,
    sweep: options.Sweep = False,
    concurrency: options.Concurrency = None,
    trace: options.Trace = None,
    arrivals: options.ArrivalsName = "poisson",
    cv: options.Cv = 1.0,
    burst_size: options.BurstSize = 8,
    requests: options.Requests = None,
    duration: options.Duration = None,
    warmup: options.Warmup = 4,
    unloaded: options.Unloaded = 10,
    slo_e2e: options.SloE2e = None,
    timeout: options.Timeout = 300.0,
    json_file: options.JsonFile = None,
    html_file: options.HtmlFile = None,
) -> None:
    """Benchmark a deployment on devices that need not be there: the real pipeline in virtual time, over a cost model.

    The load is one of --rate, --rates, --sweep, --concurrency and --trace. Example:

    easerve simulate --model qwen2.5-vl-7b --hardware a100 --topology easerve --encoders 4 --rate 5 --requests 500

    Takes the workloads and arrivals of easerve bench and gives its report; every figure is simulated.
    --scenario plays what others have published, and shows reported and simulated figures side by side.
    """
    if names or scenario is not None:
        _published(scenario, seed, requests, json_file)
        return
    from easerve.simulate.machines import Machines, parse_hardware
    from easerve.simulate.peers import as_peer
    from easerve.simulate.run import Simulation

    plan = Plan(
        workload_name=workload,
        workload=read_workload(workload, settings or ()),
        load=benching.which_load(
            rate=rate, rates=rates, sweep=sweep, concurrency=concurrency, trace=trace, bisections=3
        ),
        seed=seed,
        arrivals=Arrivals("trace" if trace else arrivals, cv, burst_size, trace),
        requests=benching.how_many(requests, duration, trace),
        seconds=duration,
        warmup=warmup,
        unloaded=unloaded,
        objectives=Objectives(deployment.slo_ttft, deployment.slo_tpot, slo_e2e),
        timeout=timeout,
    )
    name, number = parse_hardware(hardware)
    machines = Machines(name, encode_hardware, tp, precision, link, profile)
    chosen = deployment if like is None else as_peer(deployment, like)
    if name == "cpu":
        chosen = chosen.model_copy(update={"device": "cpu"})
    _simulate(Simulation(chosen, machines.world(chosen.model), number), plan, json_file, html_file)


def _published(scenario: str | None, seed: int, requests: int | None, json_file: Path | None) -> None:
    from easerve.cli.scenarios import list_scenarios, play_scenario

    if scenario is None:
        list_scenarios(Console())
        return
    document = play_scenario(scenario, seed, requests, _tables(json_file), benching.console)
    if json_file is not None:
        _put(json_file, document)


def _tables(json_file: Path | None) -> Console:
    """Where tables go: nowhere if the JSON is printed."""
    return Console(quiet=json_file == STDOUT)


def _put(file: Path, text: str) -> None:
    if file == STDOUT:
        print(text)
    else:
        benching.write(file, text)


def _simulate(simulation: Simulation, plan: Plan, json_file: Path | None, html_file: Path | None) -> None:
    from easerve.bench.document import command_line, document
    from easerve.bench.page import render
    from easerve.bench.table import show
    from easerve.simulate.show import show_world, utilisation

    out = _tables(json_file)
    show_world(simulation, out)
    began = time.process_time()
    report = simulation.bench(plan, benching.console)
    simulated, took = sum(run.observed.seconds for run in report.runs), time.process_time() - began
    benching.console.print(f"{simulated:.0f} simulated seconds of load took {took:.1f} s of one core", highlight=False)
    show(report, out)
    utilisation(report, out)
    if json_file is not None:
        whole = document(report, command_line()) | {"simulation": simulation.as_json()}
        _put(json_file, json.dumps(whole, indent=1, allow_nan=False))
    if html_file is not None:
        benching.write(html_file, render(report, command_line()))
