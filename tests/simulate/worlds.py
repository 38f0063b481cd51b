"""Worlds with simple laws, so that what should come out can be worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easerve.bench.arrivals import Arrivals
from easerve.bench.plan import Plan, Rates
from easerve.bench.workloads import read_workload
from easerve.config import Deployment
from easerve.costs.base import ChunkSize, ItemSize
from easerve.simulate.run import Simulation
from easerve.simulate.server import World


@dataclass(frozen=True)
class LinearCosts:
    """alpha + beta * size, in seconds; a stage that shares the device has its share of the speed."""

    encode_alpha: float = 0.004
    encode_beta: float = 0.01  # per item
    step_alpha: float = 0.005
    step_beta: float = 0.0001  # per token
    kv_bytes_per_token: int = 1000
    embedding_bytes_per_token: int = 100
    kv_tokens: int = 200_000

    def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
        return (self.encode_alpha + self.encode_beta * len(items)) / _part(share, beside)

    def step(self, chunks: Sequence[ChunkSize], share: float = 1.0, beside: float = 0.0) -> float:
        return (self.step_alpha + self.step_beta * sum(chunk.new for chunk in chunks)) / _part(share, beside)


def _part(share: float, beside: float) -> float:
    return min(share, share / (share + beside))


@dataclass(frozen=True)
class Wire:
    bandwidth: float = 1e9

    def seconds(self, nbytes: int) -> float:
        return nbytes / self.bandwidth


def size(height: int, width: int) -> ItemSize:
    """Patches of 14 pixels a side, four to a token."""
    patches = (height // 14) * (width // 14)
    return ItemSize(patches, patches // 4)


def world(costs: LinearCosts | None = None, **more: Any) -> World:
    chosen = costs or LinearCosts()
    return World("linear", costs=lambda plan: chosen, size=size, link=Wire(), **more)


def simulation(costs: LinearCosts | None = None, **deployment: Any) -> Simulation:
    return Simulation(Deployment(**deployment), world(costs))


def plan(workload: str = "image-heavy", rate: float = 5.0, requests: int = 100, **more: Any) -> Plan:
    settings = more.pop("settings", ())
    fields: dict[str, Any] = {"warmup": 0, "unloaded": 0, "seed": 1, "arrivals": Arrivals(), **more}
    return Plan(
        workload_name=Path(workload).name,
        workload=read_workload(workload, settings),
        load=Rates((rate,)),
        requests=requests,
        **fields,
    )
