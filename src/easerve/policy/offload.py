"""Where a request is prefilled: beside the encoder or in the remote pool.

A counter per modality tracks the target remote ratio s: every request adds what the pool is owed by it, and goes remote
when that rounds up to the request (EAServe, arXiv 2609.31551, for the counter and its bounds; the formulas, the token
weights and the handling of overrides are derived here). O(1) per request, deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

Where: TypeAlias = Literal["local", "remote"]
Ratio: TypeAlias = float | Fraction

MOST_OWED = 2  # requests by which overrides may put a counter off, so that the recovery is no burst


class Offload(Protocol):
    """Decides for each request with media. A retry keeps its first decision; text-only requests are not asked about."""

    remote_ratio: Ratio  # s, 0 to 1; may be set at any time and holds from the next decision on

    def decide(self, modality: str, tokens: int) -> Where:
        """Where a request of `tokens` prompt tokens should be prefilled."""
        ...

    def settle(self, modality: str, tokens: int, decided: Where, actual: Where) -> None:
        """The request went to `actual`, because the pool `decided` was full or down; nothing if they are the same."""
        ...


class Deficit:
    """Every request counts the same: |remote - sum of s| <= 1/2, at any time and also while s changes.

    Runs are at most ceil(s / (1 - s)) remote and ceil((1 - s) / s) local requests long, and any m requests in a row are
    within one of s * m. A ratio of 0 or 1 is absolute, whatever is owed.
    """

    def __init__(self, remote_ratio: Ratio) -> None:
        self._owed: dict[str, Ratio] = {}  # to the remote pool, by modality; s minus what went there, summed
        self.remote_ratio = remote_ratio

    @property
    def remote_ratio(self) -> Ratio:
        return self._ratio

    @remote_ratio.setter
    def remote_ratio(self, ratio: Ratio) -> None:
        if not 0 <= ratio <= 1:
            raise ValueError(f"the remote ratio must be between 0 and 1, not {ratio}")
        self._ratio = ratio

    def decide(self, modality: str, tokens: int) -> Where:
        ratio, weight = self._ratio, self._weight(tokens)
        owed = self._owed.get(modality, 0) + ratio * weight
        remote = ratio == 1 or (2 * owed >= weight and ratio > 0)
        self._owed[modality] = owed - weight if remote else owed
        return "remote" if remote else "local"

    def settle(self, modality: str, tokens: int, decided: Where, actual: Where) -> None:
        if decided == actual:
            return
        weight, owed = self._weight(tokens), self._owed.get(modality, 0)
        most = MOST_OWED * weight
        if actual == "local":
            self._owed[modality] = max(owed, min(owed + weight, most))
        else:
            self._owed[modality] = min(owed, max(owed - weight, -most))

    def _weight(self, tokens: int) -> int:
        return 1


class TokenDeficit(Deficit):
    """Every request counts by its tokens: |remote tokens - sum of s * tokens| <= half of the largest request."""

    def _weight(self, tokens: int) -> int:
        return max(1, tokens)


class NoOffload:
    """Always remote: for topologies without local prefill. The ratio is kept and not used."""

    def __init__(self, remote_ratio: Ratio = 1) -> None:
        self.remote_ratio = remote_ratio

    def decide(self, modality: str, tokens: int) -> Where:
        return "remote"

    def settle(self, modality: str, tokens: int, decided: Where, actual: Where) -> None:
        pass


OFFLOADS: dict[str, Callable[[Ratio], Offload]] = {
    "deficit": Deficit,
    "token_deficit": TokenDeficit,
    "none": NoOffload,
}


def make_offload(name: str, remote_ratio: Ratio) -> Offload:
    """The offload policy of that name. Raises ValueError for a name or a ratio that is not one."""
    if name not in OFFLOADS:
        raise ValueError(f"no offload policy {name!r}; there are {', '.join(OFFLOADS)}")
    return OFFLOADS[name](remote_ratio)
