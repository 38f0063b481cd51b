"""A scenario in words that YAML can hold: deployments under load, and the published figures they are held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.workers.spec import StageName

_STRICT = ConfigDict(frozen=True, extra="forbid")


class Group(BaseModel):
    """`count` workers with the same stages, each over `devices` devices of `hardware` (none: the side's).

    `beside`: they have no devices of their own and sit, one each, on the first device of that other group's workers.
    """

    model_config = _STRICT

    stages: tuple[StageName, ...]
    count: int = Field(default=1, ge=1)
    devices: int = Field(default=1, ge=1)
    hardware: str | None = None
    beside: str | None = None


class Item(BaseModel):
    """What the encoder sees of any item, where that is not up to its size in pixels."""

    model_config = _STRICT

    patches: int
    tokens: int


class Side(BaseModel):
    """A deployment under a load: one of those a scenario compares. `media` says what the pictures of the workload stand
    for: pictures; audio, clips as wide as they have hundredths of a second; or items that are all alike.

    With `replicas` it is one of so many independent ones that requests are dealt out to in turn: it gets its part of
    the rate, and its throughput counts so many times. `slo` is given in seconds, or names the side whose moderate tier
    judges this one. A `rate` of None looks for the knee.
    """

    model_config = _STRICT

    model: str
    hardware: str
    precision: str = "bf16"
    link: str = "pcie"
    bandwidth: float | None = None  # bytes a second
    like: str | None = None  # a peer
    workers: Mapping[str, Group]
    settings: Mapping[str, Any] = {}  # of the deployment
    media: Literal["pictures", "audio"] | Item = "pictures"
    workload: Mapping[str, Any]  # its kind and fields
    arrivals: Arrivals = Arrivals()
    rate: float | None
    requests: int = Field(default=500, ge=1)
    replicas: int = Field(default=1, ge=1)
    slo: str | Objectives | None = None

    @property
    def devices(self) -> int:
        return sum(group.count * group.devices for group in self.workers.values() if group.beside is None)


class Search(BaseModel):
    """A search by HAS for the best deployment of a workload; `requests` are those of a trial."""

    model_config = _STRICT

    model: str
    hardware: str  # with the number of devices
    spans: tuple[int, ...]
    workload: Mapping[str, Any]
    rate: float
    requests: int


class Row(BaseModel):
    """A published figure and how to get its like: a metric of a side (or of a search), as it is, or as a ratio to, or a
    relative change from, the same metric of another side.

    `bound`: the figure is a limit that should be met, "<" from below. `fitted`: a constant was chosen by it.
    """

    model_config = _STRICT

    name: str
    reported: float
    of: str
    metric: str
    over: str | None = None
    relation: Literal["value", "ratio", "change"] = "value"
    bound: Literal["<"] | None = None
    fitted: bool = False

    @model_validator(mode="after")
    def _relates(self) -> Row:
        if (self.over is None) != (self.relation == "value"):
            raise ValueError(f"row {self.name!r}: a ratio or a change is over another side, a value is not")
        return self


class Ordering(BaseModel):
    """What the source says of its figures: rows by name, the best first."""

    model_config = _STRICT

    rows: tuple[str, ...]
    best: Literal["highest", "lowest"] = "highest"


class Scenario(BaseModel):
    """`assumed`: what the source does not say. Sides are complete here; files write what they share once, `common`."""

    model_config = _STRICT

    name: str
    title: str
    source: str
    assumed: tuple[str, ...] = ()
    sides: Mapping[str, Side] = {}
    searches: Mapping[str, Search] = {}
    rows: tuple[Row, ...]
    orderings: tuple[Ordering, ...] = ()
    remarks: tuple[str, ...] = ()  # on where simulated and reported part

    @model_validator(mode="after")
    def _named(self) -> Scenario:
        known, names = {*self.sides, *self.searches}, {row.name for row in self.rows}
        wanted = {side for row in self.rows for side in (row.of, row.over) if side is not None}
        wanted |= {side.slo for side in self.sides.values() if isinstance(side.slo, str)}
        ranked = {name for ordering in self.orderings for name in ordering.rows}
        if lost := sorted(wanted - known) + sorted(ranked - names):
            raise ValueError(f"scenario {self.name!r} speaks of {', '.join(lost)}, which it does not have")
        return self
