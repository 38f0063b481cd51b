"""The two protocols every engine implements. Both are synchronous and single-threaded: a worker's stage thread
drives them, and nothing else touches them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from easerve.errors import EAServeError
from easerve.request import SamplingParams, TokenOutput

if TYPE_CHECKING:
    import numpy as np
    import torch

    from easerve.models.base import Embedding


class Encoder(Protocol):
    """Pictures in, embeddings out."""

    def encode(self, pictures: Sequence[np.ndarray]) -> list[Embedding]:
        """One embedding per picture ((height, width, 3) uint8 RGB, sizes may differ), in order, on the device."""
        ...


@dataclass(frozen=True, eq=False)
class KVState:
    """The keys and values of a sequence's first tokens, outside any pool, and what cannot be told without its media.

    `keys_values` is (layers, 2, tokens, kv_heads, head_dim), keys before values, contiguous, in the cache's dtype;
    `next_position` is the rope position of the token after them, from which all later ones count on.
    """

    keys_values: torch.Tensor
    next_position: int

    @property
    def tokens(self) -> int:
        """How many tokens it covers, from the sequence's first."""
        return self.keys_values.shape[2]


@dataclass
class NewSequence:
    """A sequence to generate: token ids with placeholders in place, and the embeddings that belong there.

    `media` holds (offset, embedding) in order of offset. The engine may drop an embedding once its positions are
    prefilled only if it can still redo the sequence after a preemption.

    `produced` are output tokens that another engine generated before: the next one follows them, and all that counts
    output tokens (limits, penalties, positions, draws) counts them, but they are not reported again. Without `kv`
    they are computed again together with the prompt, for which the media are needed.

    `kv` holds the keys and values of the whole prompt and of `produced` up to, at most, its last but one token; `media`
    are not needed then, and not looked at. The engine lets go of it once it is in the pool.

    `stop_after="prefill"` ends the sequence here with the first token sampled: `step` then reports it `Prefilled`.
    """

    id: str
    prompt: list[int]
    sampling: SamplingParams
    media: list[tuple[int, Embedding]] = field(default_factory=list)
    produced: list[int] = field(default_factory=list)
    kv: KVState | None = None
    stop_after: Literal["prefill", "decode"] = "decode"


@dataclass(frozen=True)
class Prefilled:
    """A sequence that was to stop after prefill has, and is not over: `kv` covers all but the token just sampled.

    It follows that token's `TokenOutput` in the same step. The engine has forgotten the sequence; `kv` is a copy, on
    the engine's device.
    """

    sequence_id: str
    kv: KVState


@dataclass(frozen=True)
class SequenceFailed:
    """A sequence ended in an error; the engine has forgotten it, others go on."""

    sequence_id: str
    error: EAServeError


Event = TokenOutput | SequenceFailed | Prefilled  # what a step reports


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
    cached_tokens: int  # found in the prefix cache since start
    pending_tokens: int  # prompt tokens still to prefill, of waiting and running sequences


class LanguageModel(Protocol):
    """Continuous batching over sequences."""

    max_tokens_per_sequence: int  # prompt + output that can ever fit: context and KV pool

    def add(self, sequence: NewSequence) -> None:
        """Queue a sequence, behind all that wait, whatever it brings along.

        Raises BadRequest when it can never fit or its media do not match the prompt, and EAServeError when its
        produced tokens leave nothing to generate or its keys and values are not this model's.
        """
        ...

    def abort(self, sequence_id: str) -> None:
        """Forget a sequence, queued or running, and free its KV at once; unknown ids are ignored."""
        ...

    def has_work(self) -> bool: ...

    def step(self) -> list[TokenOutput | SequenceFailed | Prefilled]:
        """One scheduler step: decode tokens first, prefill chunks in what is left of the token budget.

        Never raises for what goes wrong while computing: sequences that cannot be computed end as `SequenceFailed`,
        all others go on.
        """
        ...

    def stats(self) -> EngineStats: ...
