"""Where a request's time went, stage by stage. Seconds, on the loop's clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from easerve.request import PrefillTimes


@dataclass(frozen=True)
class ItemTimes:
    """One media item's way to its embedding."""

    queue: float  # from submission to dispatch to a worker, or until another request's encode was there
    encode: float  # of the batch it was in; 0 when it was not encoded for this request
    batch: int  # items in that batch
    worker: str  # that encoded it, now or earlier
    source: Literal["encoded", "joined", "cached"] = "encoded"


@dataclass
class RequestTimes:
    """Filled in as a request proceeds; fields of stages it has not reached, or skips, stay as they are.

    `received` and the other stamps are loop times. The front end fills `fetch` and `decode_media` (the slowest item:
    items are handled in parallel).
    """

    received: float
    fetch: float = 0.0
    decode_media: float = 0.0
    items: list[ItemTimes] = field(default_factory=list)
    encoded: float | None = None  # stamp: the last embedding was there
    prefill: PrefillTimes | None = None
    hand_over: float | None = None  # from the prefill worker's KV to the decode worker's first token
    decode_worker: str = ""
    first_token: float | None = None  # stamp
    last_token: float | None = None  # stamp
    output_tokens: int = 0  # of all answers
    answers: int = 1

    @property
    def ttft(self) -> float | None:
        return None if self.first_token is None else self.first_token - self.received

    @property
    def tpot(self) -> float | None:
        """Seconds per output token of an answer after its first; None with fewer than two tokens."""
        later = self.output_tokens / self.answers - 1
        if self.first_token is None or self.last_token is None or later <= 0:
            return None
        return (self.last_token - self.first_token) / later
