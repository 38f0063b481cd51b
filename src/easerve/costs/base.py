"""What a timed engine asks of a cost model. Seconds, bytes, token counts; no tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class ItemSize:
    """A media item as the encoder sees it: `patches` go in, `tokens` come out (of an embedding).

    The patches of a video lie in `frames`, which do not attend to each other.
    """

    patches: int
    tokens: int
    frames: int = 1


@dataclass(frozen=True)
class ChunkSize:
    """What a step computes of one sequence: `new` tokens behind `context` tokens that are in the KV pool already.

    A decode is a chunk of one.
    """

    new: int
    context: int


class StageCosts(Protocol):
    """Stage times of one model on one worker's device. `share` is the part of the device a stage has, in (0, 1];
    `beside` the part that a co-resident stage keeps busy meanwhile."""

    kv_bytes_per_token: int
    embedding_bytes_per_token: int
    kv_tokens: int  # that fit the device's memory beside the weights

    def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
        """Seconds for one encode batch."""
        ...

    def step(self, chunks: Sequence[ChunkSize], share: float = 1.0, beside: float = 0.0) -> float:
        """Seconds for one engine step over these chunks, sampling included."""
        ...


class LinkCosts(Protocol):
    """A way for bytes between two workers."""

    def seconds(self, nbytes: int) -> float: ...
