"""From a candidate to the deployment that it stands for: a list of workers on numbered devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from easerve.config import Deployment, WorkerEntry
from easerve.config.topology import ALL, EP, PD, D, E, P
from easerve.errors import StartupError
from easerve.search.demand import Demand
from easerve.search.space import Candidate
from easerve.simulate.machines import parse_hardware
from easerve.workers.spec import StageName, usable_cores


@dataclass(frozen=True)
class Machine:
    """So many equal devices; `hardware` is a name that cost models know, `cpu` for cores of this machine."""

    hardware: str
    devices: int

    @classmethod
    def parse(cls, text: str) -> Machine:
        """`a100:8`; `a100` alone is one. Raises StartupError, also for more cores than there are."""
        name, number = parse_hardware(text)
        found = cls(name, number or 1)
        if found.kind == "cpu" and found.devices > len(usable_cores()):
            raise StartupError(f"hardware {text!r}: this process may use {len(usable_cores())} cores")
        return found

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        return "cpu" if self.hardware == "cpu" else "cuda"

    def __str__(self) -> str:
        return f"{self.hardware}:{self.devices}"


def deployment(candidate: Candidate, machine: Machine, demand: Demand, base: Deployment) -> Deployment:
    """`base` with the candidate's workers and settings. A worker is put on the first of the devices it spans."""
    fields = base.model_dump(
        exclude={"topology", "encoders", "prefillers", "decoders", "device"}, exclude_defaults=True
    )
    workers = tuple(
        WorkerEntry(stages=stages, device=f"{machine.kind}:{first}") for stages, first in _placed(candidate)
    )
    arrivals = demand.rate * demand.shape.items
    return Deployment(
        **fields
        | {
            "workers": workers,
            "batching": candidate.rule,
            "encode_batch": candidate.batch,
            "arrival_rate": round(arrivals, 4) if arrivals else None,
            "slo_ttft": demand.ttft,
            "slo_tpot": demand.tpot,
        }
        | ({"offload": "deficit", "remote_ratio": candidate.ratio, "partition": "auto"} if candidate.ratio < 1 else {})
    )


def _placed(candidate: Candidate) -> Iterator[tuple[tuple[StageName, ...], int]]:
    """Stages of each worker and the number of its first device."""
    one = candidate.allocation
    tiers = {
        "aggregated": [(ALL, one.decoders, one.tp)],
        "colocated": [(PD, one.decoders, one.tp)],
        "e-pd": [(E, one.encoders, one.encode_tp), (PD, one.decoders, one.tp)],
        "e-p-d": [
            (EP if candidate.ratio < 1 else E, one.encoders, one.encode_tp),
            (P, one.prefillers, one.tp),
            (D, one.decoders, one.tp),
        ],
    }[one.kind]
    first = 0
    for stages, workers, span in tiers:
        for _ in range(workers):
            if one.kind == "colocated":
                yield E, first
            yield stages, first
            first += span
