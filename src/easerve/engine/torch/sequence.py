"""One sequence on its way through the engine: its tokens, how many of them are in the KV pool, and where."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

import torch

from easerve.engine.base import KVState, NewSequence
from easerve.models.base import Embedding
from easerve.policy.prefix import BlockKeys
from easerve.request import SamplingParams


@dataclass(eq=False)
class Sequence:
    """`tokens` are prompt and output together; keys and values of the first `computed` of them exist.

    They are in the pool, or in `kv` while they wait for room there. A preemption computes a sequence again, for which
    `media` stay until it is done; what came with keys and values of its own cannot be, and has them set aside instead.
    """

    id: str
    tokens: list[int]
    prompt_length: int
    sampling: SamplingParams
    media: list[tuple[int, Embedding]]  # (index of the first token, embedding), in order
    positions: torch.Tensor  # (rows, prompt_length) int64, on the CPU; (rows, 0) of one that came with `kv`
    next_position: int  # of the first output token
    stop_after: Literal["prefill", "decode"] = "decode"
    prefix: BlockKeys | None = None  # by which it shares KV blocks with others
    imported: bool = False  # came with keys and values
    kv: KVState | None = None
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    added: float = field(default_factory=time.monotonic)  # seconds, as the times below
    first_scheduled: float | None = None
    cached: int = 0  # tokens that were computed already then
    reported: bool = False  # a token of it has come out of this engine

    @classmethod
    def of(cls, new: NewSequence, positions: torch.Tensor, next_position: int) -> Sequence:
        return cls(
            id=new.id,
            tokens=[*new.prompt, *new.produced],
            prompt_length=len(new.prompt),
            sampling=new.sampling,
            media=[] if new.kv else new.media,
            positions=positions,
            next_position=next_position,
            stop_after=new.stop_after,
            imported=new.kv is not None,
            kv=new.kv,
            computed=new.kv.tokens if new.kv else 0,
        )

    @property
    def uncomputed(self) -> int:
        """Tokens whose keys and values are still to be computed; 1 while decoding."""
        return len(self.tokens) - self.computed

    @property
    def produced(self) -> int:
        """Output tokens so far."""
        return len(self.tokens) - self.prompt_length

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    def position_of(self, index: int) -> list[int]:
        """The position of one token, a number per row: the prompt's own, then counting on."""
        if index < self.prompt_length:
            column: list[int] = self.positions[:, index].tolist()
            return column
        return [self.next_position + index - self.prompt_length] * self.positions.shape[0]

    def positions_of(self, start: int, end: int) -> torch.Tensor:
        """(rows, end - start) int64, likewise."""
        parts = [self.positions[:, start : min(end, self.prompt_length)]]
        if end > self.prompt_length:
            first = max(start, self.prompt_length)
            counted = torch.arange(first, end) + (self.next_position - self.prompt_length)
            parts.append(counted.expand(self.positions.shape[0], -1))
        return torch.cat(parts, dim=1)
