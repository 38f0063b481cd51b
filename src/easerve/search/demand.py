"""What a deployment is planned for: the mean request of a workload, how many come, and what they are promised."""

from __future__ import annotations

from dataclasses import dataclass

from easerve.costs.base import ItemSize


@dataclass(frozen=True)
class Shape:
    """The mean request. Token counts are means rounded; `prompt_tokens` counts those of media too."""

    items: float  # media items a request, text-only requests included
    item: ItemSize  # the mean item
    prompt_tokens: int
    output_tokens: int
    media_share: float = 1.0  # of the requests; the others are text alone, which is never prefilled beside an encoder


@dataclass(frozen=True)
class Demand:
    """`rate` requests a second of a shape, and objectives in seconds (None: none)."""

    shape: Shape
    rate: float
    ttft: float | None = None
    tpot: float | None = None
