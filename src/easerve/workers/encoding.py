"""The encode desk: batches of media items in, embeddings out."""

from __future__ import annotations

import time
from collections import deque

from msgspec.structs import replace

from easerve.engine.base import Encoder
from easerve.request import EmbeddingRef, MediaItem
from easerve.transfer.arrays import ArrayStore
from easerve.workers.messages import EncodeBatch, Encoded, Failure, Heartbeat
from easerve.workers.shelf import Shelf
from easerve.workers.stage import Send, failure


class EncodeDesk:
    """Implements `Desk` over an encoder."""

    kinds = (EncodeBatch,)

    def __init__(self, encoder: Encoder, pictures: ArrayStore, shelf: Shelf, send: Send) -> None:
        self._encoder = encoder
        self._pictures = pictures
        self._shelf = shelf
        self._send = send
        self._batches: deque[EncodeBatch] = deque()
        self._seconds = 0.0
        self._items = 0

    def take(self, message: EncodeBatch) -> None:
        self._batches.append(message)

    def has_work(self) -> bool:
        return bool(self._batches)

    def work(self) -> None:
        batch = self._batches.popleft()
        started = time.monotonic()
        results = self._encode(batch.items)
        seconds = time.monotonic() - started
        self._seconds += seconds
        self._items += len(results)
        self._send(Encoded(batch.batch, results, seconds))

    def report(self, beat: Heartbeat) -> Heartbeat:
        return replace(beat, encode_seconds=self._seconds, items_encoded=self._items)

    def _encode(self, items: list[MediaItem]) -> list[EmbeddingRef | Failure]:
        """All in one forward; if that fails, each by itself, so that one bad item fails alone."""
        try:
            made = self._encoder.encode([self._pictures.open(item.pixels) for item in items])
        except Exception as error:
            if len(items) == 1:
                return [failure(error, f"encoding item {items[0].key[:12]}")]
            return [self._encode([item])[0] for item in items]
        results: list[EmbeddingRef | Failure] = []
        for item, embedding in zip(items, made, strict=True):
            try:
                results.append(self._shelf.publish(item, embedding))
            except Exception as error:
                results.append(failure(error, f"publishing item {item.key[:12]}"))
        return results
