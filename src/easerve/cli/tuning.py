"""`easerve tune` and `easerve advise`: from a workload and objectives to a deployment, or to a reasoned choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from easerve.bench.arrivals import Arrivals
from easerve.bench.workloads import read_workload
from easerve.cli import bench_options, plan_options
from easerve.cli.plan_options import SEARCH, parse_slo, parse_spans
from easerve.config import Deployment, read_deployment
from easerve.search.methods import Method
from easerve.search.outcome import Objective

if TYPE_CHECKING:
    from easerve.search.question import Question

console = Console(stderr=True)


def tune(
    model: plan_options.Model = "builtin",
    hardware: plan_options.Hardware = "a100:8",
    workload: bench_options.WorkloadName = "image-heavy",
    settings: bench_options.Settings = None,
    slo: plan_options.Slo = "",
    rate: plan_options.Rate = None,
    arrivals: bench_options.ArrivalsName = "poisson",
    cv: bench_options.Cv = 1.0,
    burst_size: bench_options.BurstSize = 8,
    tensor_parallel: plan_options.Spans = None,
    precision: plan_options.Precision = "bf16",
    profile: plan_options.Profile = None,
    link: plan_options.Link = "auto",
    base: plan_options.Base = None,
    out: Annotated[Path, typer.Option(help="Deployment file to write.", dir_okay=False)] = Path("deployment.yaml"),
    method: Annotated[
        Method, typer.Option(help="How to search; all but has are there for comparison.", rich_help_panel=SEARCH)
    ] = "has",
    objective: Annotated[
        Objective, typer.Option(help="What is best; throughput is the paper's mode.", rich_help_panel=SEARCH)
    ] = "goodput",
    requests: plan_options.Requests = None,
    trials: Annotated[int, typer.Option(help="Most trials.", min=1, rich_help_panel=SEARCH)] = 30,
    seed: Annotated[int, typer.Option(help="Same seed, same search.", rich_help_panel=SEARCH)] = 0,
    study: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps trials, so that a search that was broken off goes on.",
            dir_okay=False,
            rich_help_panel=SEARCH,
        ),
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Run trials on this machine's devices, not in virtual time.", rich_help_panel=SEARCH
        ),
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--html", help="Page with plots (default: beside --out).", dir_okay=False)
    ] = None,
    as_json: plan_options.AsJson = False,
) -> None:
    """Find the deployment that serves a workload best, and write it as a file for `easerve serve --config`.

    Example:

    easerve tune --model qwen2.5-vl-7b --hardware a100:8 --workload image-heavy --slo ttft=2s,tpot=50ms
    """
    from easerve.cli.planning import Wanted, run_tune

    question = _question(
        rate, model, hardware, workload, settings, slo, Arrivals(arrivals, cv, burst_size), tensor_parallel, precision,
        profile, link, base, requests,
    )  # fmt: skip
    wanted = Wanted(method, objective, trials, seed, study, live, out, report or out.with_suffix(".html"))
    document = run_tune(question, wanted, Console(quiet=as_json), console)
    if as_json:
        print(json.dumps(document, allow_nan=False))


def advise(
    model: plan_options.Model = "builtin",
    hardware: plan_options.Hardware = "a100:8",
    workload: bench_options.WorkloadName = "image-heavy",
    settings: bench_options.Settings = None,
    slo: plan_options.Slo = "",
    rate: plan_options.Rate = None,
    arrivals: bench_options.ArrivalsName = "poisson",
    cv: bench_options.Cv = 1.0,
    burst_size: bench_options.BurstSize = 8,
    tensor_parallel: plan_options.Spans = None,
    precision: plan_options.Precision = "bf16",
    profile: plan_options.Profile = None,
    link: plan_options.Link = "auto",
    base: plan_options.Base = None,
    requests: plan_options.Requests = None,
    as_json: plan_options.AsJson = False,
) -> None:
    """Say which topology fits a workload, why, and when giving encode devices of its own does not pay.

    Example:

    easerve advise --model qwen2.5-vl-7b --hardware a100:4 --workload image-heavy --slo ttft=2s,tpot=50ms
    """
    from easerve.cli.planning import run_advise

    question = _question(
        rate, model, hardware, workload, settings, slo, Arrivals(arrivals, cv, burst_size), tensor_parallel, precision,
        profile, link, base, requests,
    )  # fmt: skip
    document = run_advise(question, Console(quiet=as_json), console)
    if as_json:
        print(json.dumps(document, allow_nan=False))


def _question(
    rate: float | None,
    model: str,
    hardware: str,
    workload: str,
    settings: list[str] | None,
    slo: str,
    arrivals: Arrivals,
    tensor_parallel: str | None,
    precision: str,
    profile: Path | None,
    link: str,
    base: Path | None,
    requests: int | None,
) -> Question:
    from easerve.search.deploying import Machine
    from easerve.search.question import Question

    machine = Machine.parse(hardware)
    return Question(
        model=model,
        machine=machine,
        workload_name=Path(workload).name,
        workload=read_workload(workload, settings or ()),
        objectives=parse_slo(slo),
        rate=rate,
        arrivals=arrivals,
        requests=requests,
        base=Deployment() if base is None else read_deployment(base),
        precision=precision,
        profile=profile,
        link=link,
        spans=parse_spans(tensor_parallel, machine.devices),
    )
