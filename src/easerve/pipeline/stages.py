"""What the pipeline needs of a worker, whether it is a process, a timed stand-in or a test double."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from easerve.errors import EAServeError
from easerve.request import EmbeddingRef, KVRef, MediaItem, SamplingParams, TensorRef, TokenOutput


@dataclass(frozen=True)
class EncodedBatch:
    """What became of a batch: one result per item, in order, and the seconds the batch took on the worker."""

    results: Sequence[EmbeddingRef | EAServeError]
    seconds: float


class EncodeStage(Protocol):
    """A worker that encodes one batch at a time."""

    name: str

    async def encode(self, items: Sequence[MediaItem]) -> EncodedBatch:
        """Raises WorkerLost if the worker dies on it. Not cancelled by the pipeline once started."""
        ...


class SequenceJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sequence for one worker, from wherever it stands; it travels to worker processes as it is.

    With `kv` its prompt has been prefilled elsewhere, and media are not needed; without, the prompt and the tokens
    `produced` so far are prefilled here. With `hand_over` the worker stops after the first token and gives out the KV.
    """

    sequence_id: str
    prompt: tuple[int, ...]
    sampling: SamplingParams
    media: tuple[tuple[MediaItem, EmbeddingRef], ...] = ()
    produced: tuple[int, ...] = ()
    kv: KVRef | None = None
    hand_over: bool = False

    @property
    def tokens(self) -> int:
        """Tokens to prefill."""
        return 0 if self.kv is not None else len(self.prompt) + len(self.produced)


@dataclass(frozen=True)
class Prefilled:
    """The end of a sequence on its prefill worker; whoever gets this owns the KV buffer."""

    sequence_id: str
    kv: KVRef


@dataclass(frozen=True)
class SequenceFailed:
    """The end of a sequence that did not finish."""

    sequence_id: str
    error: EAServeError


SequenceEvent = TokenOutput | Prefilled | SequenceFailed
Sink = Callable[[SequenceEvent], None]


class GenerateStage(Protocol):
    """A worker that prefills, decodes, or does both, many sequences at once."""

    name: str

    @property
    def decodes(self) -> bool:
        """Whether it goes on after the first token; if not, its jobs must say `hand_over`."""
        ...

    def start(self, job: SequenceJob, sink: Sink) -> None:
        """Begin; `sink` is called on the loop with every token, the last one carrying a finish reason, or once with
        the failure, or, when handing over, once with the KV after the first token."""
        ...

    def cancel(self, sequence_id: str) -> None:
        """Stop and free; the sink is not called again. Unknown ids are ignored."""
        ...


class Buffers(Protocol):
    """Owner of the memory that tensors travel in."""

    @property
    def survives_owner(self) -> bool:
        """Whether a buffer outlives the process that made it."""
        ...

    def release(self, ref: TensorRef) -> None:
        """Give the memory back; a second release of the same buffer is ignored."""
        ...
