"""The embedding cache: what was encoded for one request serves the others, also while it is still being encoded.

One per front end, shared by all its encode workers. It holds references; the bytes lie in transfer buffers. An item
that is being encoded is not encoded a second time: later requests for it wait and find it in the store (single flight).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from easerve.errors import EAServeError, NoRoom, TransferError
from easerve.pipeline.encode import EncodePool
from easerve.pipeline.timing import ItemTimes
from easerve.policy.cache import ByteLRU
from easerve.request import EmbeddingRef, MediaItem


class EmbeddingCache:
    """Embeddings by content key. What `get` returns stays until the same number of `unpin`."""

    def __init__(self, encode: EncodePool, store: ByteLRU[EmbeddingRef]) -> None:
        self.store = store
        self.joins = 0
        self._encode = encode
        self._flights: dict[str, asyncio.Future[None]] = {}

    async def get(self, item: MediaItem, latest_start: float) -> tuple[EmbeddingRef, ItemTimes]:
        """The item's embedding, pinned for the caller, who keeps owning the item's pixels.

        Encode is asked to start by `latest_start` (loop time) if it has to hold the item at all. Raises the item's own
        error, TransferError when the pixels are gone, or Unavailable.
        """
        loop = asyncio.get_running_loop()
        asked, waited = loop.time(), False
        while (found := self.store.lookup(item.key)) is None:
            flight = self._flights.get(item.key)
            if flight is None:
                return await self._lead(item, latest_start)
            self.joins += not waited
            waited = True
            await asyncio.shield(flight)  # a leader that leaves ends the flight without a result: then it is our turn
        times = ItemTimes(loop.time() - asked, 0.0, 0, found.worker, "joined" if waited else "cached")
        return found, times

    async def _lead(self, item: MediaItem, latest_start: float) -> tuple[EmbeddingRef, ItemTimes]:
        flight: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flights[item.key] = flight
        try:
            embedding, times = await self._encoded(item, latest_start)
        except TransferError:
            raise  # of these pixels; whoever has joined has pixels of its own
        except EAServeError as error:
            flight.set_exception(error)
            flight.exception()  # that nobody joined is no news
            raise
        else:
            self._release(self.store.insert(item.key, embedding, embedding.nbytes))
            return embedding, times
        finally:
            del self._flights[item.key]
            if not flight.done():
                flight.set_result(None)

    async def _encoded(self, item: MediaItem, latest_start: float) -> tuple[EmbeddingRef, ItemTimes]:
        try:
            return await self._encode.encode(item, latest_start)
        except NoRoom:
            self.make_room()
            return await self._encode.encode(item, latest_start)

    def unpin(self, embedding: EmbeddingRef) -> None:
        self._release(self.store.unpin(embedding.key))

    def discard(self, embedding: EmbeddingRef) -> None:
        """Its buffer turned out to be gone: never serve it again."""
        self._release(self.store.discard(embedding.key))

    def lose(self, worker: str) -> None:
        """A worker is gone, and its embeddings with it where they do not outlive it: nobody is to find them."""
        if not self._encode.buffers.survives_owner:
            for embedding in [one for one in self.store.values() if one.worker == worker]:
                self.discard(embedding)

    def make_room(self) -> None:
        """Memory is short: give back every embedding that no request is using."""
        self._release(self.store.evict())

    def _release(self, embeddings: Sequence[EmbeddingRef]) -> None:
        for embedding in embeddings:
            self._encode.release(embedding)
