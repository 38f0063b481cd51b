"""The devices that costs are known for, from one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from easerve.costs.work import Rates
from easerve.errors import StartupError

PRECISIONS = {"bf16": 2.0, "fp8": 1.0, "nvfp4": 0.5625}  # bytes a weight; nvfp4: 4 bits, and a scale of 8 for 16


@dataclass(frozen=True)
class Hardware:
    """One device. `flops` by precision and `bandwidth` are a second's, `links` bytes a second in one direction."""

    key: str
    name: str
    memory: float  # bytes
    flops: Mapping[str, float]
    bandwidth: float
    sms: int
    links: Mapping[str, float]
    source: str
    tables: str | None = None  # the system of aiconfigurator-core
    stand_in: str | None = None  # the device to take kernels from where it has none of its own

    def rates(self, precision: str) -> Rates:
        """At `precision`; where its tensor cores lack it, weights are widened to bf16 first."""
        return Rates(self.flops.get(precision, self.flops["bf16"]), self.bandwidth)


def find_hardware(name: str) -> Hardware:
    """`a100`, `RTX-6000-Ada`, ...: letters' case and punctuation do not matter. StartupError for what is not known."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    known = _table()
    if plain not in known:
        raise StartupError(
            f"hardware {name!r} is not known; there are {', '.join(known)}, and cpu, which takes a profile of the "
            "machine (easerve profile)"
        )
    return known[plain]


def all_hardware() -> list[Hardware]:
    return list(_table().values())


@cache
def _table() -> dict[str, Hardware]:
    rows: dict[str, dict[str, Any]] = yaml.safe_load(
        Path(__file__).with_name("hardware.yaml").read_text(encoding="utf-8")
    )
    return {key: Hardware(key=key, **row) for key, row in rows.items()}
