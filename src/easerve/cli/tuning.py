"""`easerve tune` and `easerve advise`: from a workload and objectives to a deployment, or to a reasoned choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from easerve.cli.output import writable
from easerve.cli.plan_options import SEARCH, AsJson, Asked, Requests, takes_asked
from easerve.search.methods import Method
from easerve.search.outcome import Objective

console = Console(stderr=True)


@takes_asked
def tune(
    asked: Asked,
    out: Annotated[Path, typer.Option(help="Deployment file to write.", callback=writable)] = Path("deployment.yaml"),
    method: Annotated[
        Method, typer.Option(help="How to search; all but has are there for comparison.", rich_help_panel=SEARCH)
    ] = "has",
    objective: Annotated[
        Objective, typer.Option(help="What is best; throughput is the paper's mode.", rich_help_panel=SEARCH)
    ] = "goodput",
    requests: Requests = None,
    trials: Annotated[int, typer.Option(help="Most trials.", min=1, rich_help_panel=SEARCH)] = 30,
    seed: Annotated[int, typer.Option(help="Same seed, same search.", rich_help_panel=SEARCH)] = 0,
    study: Annotated[
        Path | None,
        typer.Option(
            help="File that keeps trials, so that a search that was broken off goes on.",
            callback=writable,
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
        Path | None,
        typer.Option("--html", help="Page with plots (default: beside --out).", callback=writable),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the deployment that serves a workload best, and write it as a file for `easerve serve --config`.

    Example:

    easerve tune --model qwen2.5-vl-7b --hardware a100:8 --workload image-heavy --slo ttft=2s,tpot=50ms
    """
    from easerve.cli.planning import Wanted, run_tune

    wanted = Wanted(method, objective, trials, seed, study, live, out, report or out.with_suffix(".html"))
    _tell(run_tune(asked.question(requests), wanted, Console(quiet=as_json), console), as_json)


@takes_asked
def advise(asked: Asked, requests: Requests = None, as_json: AsJson = False) -> None:
    """Say which topology fits a workload, why, and when giving encode devices of its own does not pay.

    Example:

    easerve advise --model qwen2.5-vl-7b --hardware a100:4 --workload image-heavy --slo ttft=2s,tpot=50ms
    """
    from easerve.cli.planning import run_advise

    _tell(run_advise(asked.question(requests), Console(quiet=as_json), console), as_json)


def _tell(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(document, allow_nan=False))
