"""What the pipeline needs of a worker, whether it is a process, a timed stand-in or a test double."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from easerve.errors import EAServeError
from easerve.request import EmbeddingRef, MediaItem, SamplingParams, TensorRef, TokenOutput


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


@dataclass(frozen=True)
class SequenceJob:
    """A sequence to prefill and decode, with its media encoded. `media` pairs each item with its embedding."""

    sequence_id: str
    prompt: tuple[int, ...]
    sampling: SamplingParams
    media: tuple[tuple[MediaItem, EmbeddingRef], ...]


@dataclass(frozen=True)
class SequenceFailed:
    """The end of a sequence that did not finish."""

    sequence_id: str
    error: EAServeError


Sink = Callable[[TokenOutput | SequenceFailed], None]


class GenerateStage(Protocol):
    """A worker that prefills and decodes many sequences at once."""

    name: str

    def start(self, job: SequenceJob, sink: Sink) -> None:
        """Begin; `sink` is called on the loop with every token, the last one carrying a finish reason, or once with
        the failure."""
        ...

    def cancel(self, sequence_id: str) -> None:
        """Stop and free; the sink is not called again. Unknown ids are ignored."""
        ...


class Buffers(Protocol):
    """Owner of the memory that tensors travel in."""

    def release(self, ref: TensorRef) -> None:
        """Give the memory back; a second release of the same buffer is ignored."""
        ...
