"""One media item on its way through encode, and how that ends: with its own embedding or with an error, once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from msgspec.structs import replace

from easerve.errors import EAServeError
from easerve.pipeline.timing import ItemTimes
from easerve.request import EmbeddingRef, MediaItem


@dataclass(eq=False)
class EncodeJob:
    """Times are loop times. `done` is cancelled by a reader that waits no longer."""

    item: MediaItem
    submitted: float
    latest_start: float
    done: asyncio.Future[tuple[EmbeddingRef, ItemTimes]]
    ticket: int | None = None  # while queued
    attempts: int = 0

    def fail(self, error: EAServeError) -> None:
        if not self.done.done():
            self.done.set_exception(error)

    def settle(self, result: EmbeddingRef | EAServeError, times: ItemTimes) -> EmbeddingRef | None:
        """End with what a worker made of the item. Returns an embedding that nobody takes."""
        if isinstance(result, EAServeError):
            self.fail(result)
            return None
        if (wrong := self._mismatch(result)) is not None:
            self.fail(wrong)
            return result
        if self.done.done():
            return result
        self.done.set_result((replace(result, worker=times.worker), times))
        return None

    @property
    def untaken(self) -> EmbeddingRef | None:
        """What it ended with in the very turn of the loop that cancelled its reader."""
        if not self.done.done() or self.done.cancelled() or self.done.exception() is not None:
            return None
        return self.done.result()[0]

    def _mismatch(self, embedding: EmbeddingRef) -> EAServeError | None:
        """An embedding must be the item's own and as long as the prompt expects."""
        item = self.item
        if embedding.key != item.key:
            return EAServeError(f"encode answered item {item.key[:12]} with an embedding of {embedding.key[:12]}")
        if embedding.tokens != item.tokens:
            return EAServeError(
                f"item {item.key[:12]} was encoded to {embedding.tokens} tokens; its prompt has room for {item.tokens}"
            )
        return None
