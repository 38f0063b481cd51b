"""What a deployment says of partitioning. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PartitionName = Literal["none", "static", "dynamic", "auto"]


@dataclass(frozen=True)
class PartitionOptions:
    """As the deployment's fields of these names."""

    name: PartitionName = "none"
    share: float = 0.5  # static: the part of the device that is encode's
    slack: float = 0.1  # dynamic: how much longer than on the whole device encode may take
    table: str | None = None  # dynamic: a file of measured shares; None: measured at start
    largest_batch: int = 8  # to measure at start
