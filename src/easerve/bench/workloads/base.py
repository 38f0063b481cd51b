"""What all workloads share: a description that YAML can hold, and an endless stream of requests drawn from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from random import Random
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.request import Request

LONGEST_SIDE = 8192  # pixels; a picture is drawn in memory


def _sides(value: object) -> object:
    """224x224 as YAML and the command line write it; 224 for a square."""
    if isinstance(value, int):
        return (value, value)
    if isinstance(value, str):
        return tuple(value.lower().split("x"))
    return value


Side = Annotated[int, Field(ge=1, le=LONGEST_SIDE)]
Pixels = Annotated[tuple[Side, Side], BeforeValidator(_sides)]  # width, height


class Workload(BaseModel, ABC):
    """A pure function from a seeded generator to requests."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @abstractmethod
    def requests(self, rng: Random, draw: Draw = DRAWN) -> Iterator[Request]:
        """Requests without end, unless they are the user's own. Two generators with one seed give the same."""
