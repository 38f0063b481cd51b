"""What was seen of one request. Seconds on the run's clock, which starts with the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class Record:
    """One request from its scheduled moment to its last token; `error` is its kind, None if it was answered.

    TTFT, TPOT, ITL and E2E are defined as in `vllm bench serve`: from sending, to chunks as they are received.
    """

    index: int
    modality: str
    media: int
    scheduled: float
    sent: float
    chunks: list[float] = field(default_factory=list)  # every chunk with a choice
    tokens: list[float] = field(default_factory=list)  # chunks that bear a token
    ended: float = 0.0  # the response, or the failure
    prompt_tokens: int | None = None
    output_tokens: int = 0
    error: str | None = None
    message: str = ""
    timing: Mapping[str, Any] | None = None  # an EAServe server's own, in ms

    @property
    def lag(self) -> float:
        """How late the generator was."""
        return self.sent - self.scheduled

    @property
    def ttft(self) -> float:
        """Sending to the first chunk with a choice (servers open a stream with the first token)."""
        return self.chunks[0] - self.sent

    @property
    def e2e(self) -> float:
        """Sending to the last chunk with a choice."""
        return self.chunks[-1] - self.sent

    @property
    def tpot(self) -> float | None:
        """(E2E - TTFT) / (output tokens - 1); None below two tokens."""
        return (self.e2e - self.ttft) / (self.output_tokens - 1) if self.output_tokens > 1 else None

    @property
    def itl(self) -> list[float]:
        """Gaps between chunks that bear a token."""
        return [later - earlier for earlier, later in pairwise(self.tokens)]

    @property
    def chunk_gaps(self) -> list[float]:
        """Gaps between all chunks, opening and closing ones included: what vLLM's bench calls ITL."""
        return [later - earlier for earlier, later in pairwise(self.chunks)]

    def as_json(self) -> dict[str, Any]:
        """Everything, times rounded to microseconds."""
        fields = asdict(self)
        for name in ("chunks", "tokens"):
            fields[name] = [round(moment, 6) for moment in fields[name]]
        for name in ("scheduled", "sent", "ended"):
            fields[name] = round(fields[name], 6)
        return fields
