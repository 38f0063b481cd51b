"""What a benchmark is to do; every field is said on the command line or has its default here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from easerve.bench.arrivals import Arrivals, check_rate
from easerve.bench.objectives import Objectives
from easerve.bench.workloads import Workload
from easerve.errors import BadRequest


@dataclass(frozen=True)
class Rates:
    """Open loop at each of these requests a second, then bisecting for the knee; a trace has its own rate, here 0."""

    rates: Sequence[float]
    bisections: int = 0


@dataclass(frozen=True)
class Climb:
    """Open loop: find the knee by doubling the rate, then bisecting."""

    bisections: int = 3


@dataclass(frozen=True)
class Closed:
    """Closed loop: so many requests in flight."""

    concurrency: int


Load = Rates | Climb | Closed


@dataclass(frozen=True)
class Plan:
    """`requests` and `seconds` bound each run, whichever ends first; at least one is set. Times are seconds."""

    workload_name: str
    workload: Workload
    load: Load
    seed: int
    arrivals: Arrivals = field(default_factory=Arrivals)
    requests: int | None = 100
    seconds: float | None = None
    warmup: int = 4
    unloaded: int = 10
    objectives: Objectives = field(default_factory=Objectives)
    ignore_eos: bool = True
    timeout: float = 300.0

    def __post_init__(self) -> None:
        given = {
            "duration": self.seconds,
            "timeout": self.timeout,
            **{f"objective for {name.upper()}": value for name, value in self.objectives.__dict__.items()},
        }
        for name, value in given.items():
            if value is not None and not 0 < value < math.inf:
                raise BadRequest(f"the {name} must be above 0 seconds and finite, not {value:g}")
        if isinstance(self.load, Rates) and self.arrivals.name != "trace":
            for rate in self.load.rates:
                check_rate(rate)
        if self.requests is None and self.seconds is None and self.arrivals.name != "trace":
            raise BadRequest("a run needs an end: --requests or --duration")
        if isinstance(self.load, Climb) and not (self.objectives.given or self.unloaded):
            raise BadRequest("a sweep needs an objective: --slo-ttft and --slo-tpot, or --unloaded above 0")

    def rng(self, purpose: str) -> Random:
        """A generator of its own for each purpose, such as "arrivals of run 2"."""
        return Random(f"{self.seed} {purpose}")

    def as_json(self) -> dict[str, Any]:
        """Enough to do it again."""
        load: Mapping[str, Any] = {"kind": type(self.load).__name__.lower(), **self.load.__dict__}
        arrivals = {**self.arrivals.__dict__, "trace": self.arrivals.trace and str(self.arrivals.trace)}
        return {
            "workload": {"name": self.workload_name, **self.workload.model_dump(mode="json")},
            "load": load,
            "arrivals": None if isinstance(self.load, Closed) else arrivals,
            "requests": self.requests,
            "seconds": self.seconds,
            "seed": self.seed,
            "warmup": self.warmup,
            "unloaded": self.unloaded,
            "objectives": self.objectives.__dict__,
            "ignore_eos": self.ignore_eos,
            "timeout": self.timeout,
        }
