"""Options that `easerve tune` and `easerve advise` share, and what they mean."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.workloads import read_workload
from easerve.cli import bench_options
from easerve.cli.options import parameters_of, with_options
from easerve.config import Deployment, read_deployment
from easerve.errors import BadRequest

if TYPE_CHECKING:
    from easerve.search.question import Question

WHAT, SEARCH = "What is planned", "Search"
Model = Annotated[str, typer.Option(help="Name such as qwen2.5-vl-7b, folder, or 'builtin'.", rich_help_panel=WHAT)]
Hardware = Annotated[
    str, typer.Option(help="Devices and how many, as in a100:8; cpu:2 with --profile.", rich_help_panel=WHAT)
]
Rate = Annotated[
    float | None,
    typer.Option(help="Requests a second (default: what the devices just carry).", min=1e-6, rich_help_panel=WHAT),
]
Slo = Annotated[str, typer.Option(help="Objectives, as in ttft=8s,tpot=100ms.", rich_help_panel=WHAT)]
Spans = Annotated[
    str | None,
    typer.Option(
        "--tensor-parallel",
        help="Devices that a prefill or decode worker may span, as in 1,2,4 (default: 1, which is what the engines "
        "here serve; more where the model has no room on one).",
        rich_help_panel=WHAT,
    ),
]
Precision = Annotated[str, typer.Option(help="Precision of the weights: bf16, fp8 or nvfp4.", rich_help_panel=WHAT)]
Profile = Annotated[
    Path | None,
    typer.Option(help="Stage times from `easerve profile`.", exists=True, dir_okay=False, rich_help_panel=WHAT),
]
Link = Annotated[
    str, typer.Option(help="How tensors travel: auto, shm, nvlink, pcie, rdma or tcp.", rich_help_panel=WHAT)
]
Base = Annotated[
    Path | None,
    typer.Option(
        help="Deployment file whose other settings are kept.", exists=True, dir_okay=False, rich_help_panel=WHAT
    ),
]
Requests = Annotated[
    int | None,
    typer.Option(
        help="Requests of each trial (default: 300 to 1000, so that it lasts several answers).",
        min=1,
        rich_help_panel=SEARCH,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]


@dataclass(frozen=True)
class Asked:
    """What is planned, as the command line has it: each field is an option."""

    model: Model = "builtin"
    hardware: Hardware = "a100:8"
    workload: bench_options.WorkloadName = "image-heavy"
    settings: bench_options.Settings = None
    slo: Slo = ""
    rate: Rate = None
    arrivals: bench_options.ArrivalsName = "poisson"
    cv: bench_options.Cv = 1.0
    burst_size: bench_options.BurstSize = 8
    tensor_parallel: Spans = None
    precision: Precision = "bf16"
    profile: Profile = None
    link: Link = "auto"
    base: Base = None

    def question(self, requests: int | None) -> Question:
        """`requests` of each trial; None leaves it to the search. Raises BadRequest, StartupError for bad options."""
        from easerve.search.deploying import Machine
        from easerve.search.question import Question

        machine = Machine.parse(self.hardware)
        return Question(
            model=self.model,
            machine=machine,
            workload_name=Path(self.workload).name,
            workload=read_workload(self.workload, self.settings or ()),
            objectives=parse_slo(self.slo),
            rate=self.rate,
            arrivals=Arrivals(self.arrivals, self.cv, self.burst_size),
            requests=requests,
            base=Deployment() if self.base is None else read_deployment(self.base),
            precision=self.precision,
            profile=self.profile,
            link=self.link,
            spans=parse_spans(self.tensor_parallel, machine.devices),
        )


def takes_asked(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first parameter is an `Asked` becomes one with an option for each of its fields."""
    fields = parameters_of(Asked)

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        command(Asked(**{field.name: given.pop(field.name) for field in fields}), **given)

    return with_options(wrapped, [*fields, *parameters_of(command)[1:]])


_UNITS = {"s": 1.0, "ms": 1e-3, "": 1.0}


def parse_slo(text: str) -> Objectives:
    """`ttft=8s,tpot=100ms`; seconds without a unit, none for nothing. Raises BadRequest for anything else."""
    found = {}
    for one in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(ttft|tpot)\s*=\s*(\d+\.?\d*|\.\d+)\s*(ms|s|)", one.lower())
        if match is None or float(match[2]) <= 0:
            raise BadRequest(f"objective {one!r} is none; write --slo ttft=8s,tpot=100ms")
        found[match[1]] = float(match[2]) * _UNITS[match[3]]
    return Objectives(**found)


def parse_spans(text: str | None, devices: int) -> Sequence[int] | None:
    """`1,2,4`. Raises BadRequest for what are no widths, or wider than the machine."""
    if text is None:
        return None
    try:
        found = sorted({int(one) for one in text.split(",")})
    except ValueError:
        raise BadRequest(f"--tensor-parallel takes numbers such as 1,2,4, not {text!r}") from None
    if found[0] < 1 or found[-1] > devices:
        raise BadRequest(f"--tensor-parallel takes numbers from 1 to {devices}, the devices there are, not {text}")
    return found
