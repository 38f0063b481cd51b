"""The two protocols every engine implements. Both are synchronous and single-threaded: a worker's stage thread
drives them, and nothing else touches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from easerve.errors import EAServeError
from easerve.request import SamplingParams, TokenOutput

if TYPE_CHECKING:
    import numpy as np

    from easerve.models.base import Embedding


class Encoder(Protocol):
    """Pictures in, embeddings out."""

    def encode(self, pictures: Sequence[np.ndarray]) -> list[Embedding]:
        """One embedding per picture ((height, width, 3) uint8 RGB), in order."""
        ...


@dataclass
class NewSequence:
    """A sequence to generate: token ids with placeholders in place, and the embeddings that belong there.

    `media` holds (offset, embedding) in order of offset. The engine may drop an embedding once its positions are
    prefilled only if it can still redo the sequence after a preemption.
    """

    id: str
    prompt: list[int]
    sampling: SamplingParams
    media: list[tuple[int, Embedding]] = field(default_factory=list)


@dataclass(frozen=True)
class SequenceFailed:
    """A sequence ended in an error; the engine has forgotten it, others go on."""

    sequence_id: str
    error: EAServeError


@dataclass(frozen=True)
class EngineStats:
    """A snapshot for metrics and placement."""

    running: int
    waiting: int
    kv_blocks_total: int
    kv_blocks_used: int
    preemptions: int
    prompt_tokens: int  # prefilled since start
    output_tokens: int  # sampled since start
    pending_tokens: int  # prompt tokens still to prefill, of waiting and running sequences


class LanguageModel(Protocol):
    """Continuous batching over sequences."""

    max_tokens_per_sequence: int  # prompt + output that can ever fit: context and KV pool

    def add(self, sequence: NewSequence) -> None:
        """Queue a sequence. Raises BadRequest when it can never fit or its media do not match the prompt."""
        ...

    def abort(self, sequence_id: str) -> None:
        """Forget a sequence, queued or running, and free its KV at once; unknown ids are ignored."""
        ...

    def has_work(self) -> bool: ...

    def step(self) -> list[TokenOutput | SequenceFailed]:
        """One scheduler step: decode tokens first, prefill chunks in what is left of the token budget."""
        ...

    def stats(self) -> EngineStats: ...
