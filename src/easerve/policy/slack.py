"""How long encode may hold an item at most if its request is still to meet its TTFT objective."""

from __future__ import annotations

import math

ETA = 0.1  # weight of the newest observation


class Slack:
    """Knows the objective (seconds; None for none) and learns what follows encode: transfer, prefill, first token."""

    def __init__(self, ttft_objective: float | None) -> None:
        self._objective = ttft_objective
        self._rest: float | None = None

    def observe(self, seconds: float) -> None:
        """A request's first token came so long after its last embedding."""
        self._rest = seconds if self._rest is None else self._rest + ETA * (seconds - self._rest)

    def latest_start(self, received: float, encode_seconds: float) -> float:
        """When encode has to start for a request that arrived at `received`; infinity without an objective."""
        if self._objective is None:
            return math.inf
        return received + self._objective - encode_seconds - (self._rest or 0.0)
