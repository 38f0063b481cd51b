"""One sequence on its way through the engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch

from easerve.engine.base import NewSequence
from easerve.models.base import Embedding
from easerve.request import SamplingParams


@dataclass(eq=False)
class Sequence:
    """`tokens` are prompt and output together; the first `computed` of them are in the KV pool."""

    id: str
    tokens: list[int]
    prompt_length: int
    sampling: SamplingParams
    media: list[tuple[int, Embedding]]
    positions: torch.Tensor  # (rows, prompt_length)
    next_position: int  # of the first output token
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    added: float = field(default_factory=time.monotonic)
    first_scheduled: float | None = None
    first_token_out: bool = False

    @classmethod
    def of(cls, new: NewSequence, positions: torch.Tensor, next_position: int) -> Sequence:
        return cls(new.id, list(new.prompt), len(new.prompt), new.sampling, new.media, positions, next_position)

    @property
    def uncomputed(self) -> int:
        """Tokens whose keys and values are still to be computed; 1 while decoding."""
        return len(self.tokens) - self.computed

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    def positions_of(self, start: int, end: int) -> torch.Tensor:
        """(rows, end - start): the prompt's own, then counting on."""
        parts = [self.positions[:, start : min(end, self.prompt_length)]]
        if end > self.prompt_length:
            first = self.next_position + max(start, self.prompt_length) - self.prompt_length
            count = end - max(start, self.prompt_length)
            parts.append(torch.arange(first, first + count).expand(self.positions.shape[0], -1))
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
