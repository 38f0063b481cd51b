"""The media of one request: its pixels until they are not needed any more, its embeddings until it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from easerve.pipeline.cache import EmbeddingCache
from easerve.pipeline.stages import Buffers
from easerve.pipeline.timing import ItemTimes
from easerve.pipeline.together import all_or_nothing
from easerve.request import EmbeddingRef, MediaItem

Embedded = tuple[tuple[MediaItem, EmbeddingRef], ...]


def main_encoder(embedded: Embedded) -> str:
    """The encode worker that made most of it, or nothing."""
    made: Counter[str] = Counter()
    for item, embedding in embedded:
        made[embedding.worker] += item.tokens
    return made.most_common(1)[0][0] if made else ""


class RequestMedia:
    """Owns what it is given and what it fetches; `release` gives back everything, from whatever state."""

    def __init__(self, items: Sequence[MediaItem], cache: EmbeddingCache, buffers: Buffers) -> None:
        self.items = items
        self._cache = cache
        self._buffers = buffers
        self._embeddings: dict[int, EmbeddingRef] = {}  # by the item's place in the request
        self._renewing = asyncio.Lock()
        self.times: dict[int, ItemTimes] = {}

    async def embedded(self) -> Embedded:
        """Items with their embeddings, once nobody is renewing them."""
        async with self._renewing:
            return self._now()

    def _now(self) -> Embedded:
        return tuple((item, self._embeddings[index]) for index, item in enumerate(self.items))

    async def fetch(self, latest_start: float) -> None:
        """Embeddings of all items at once; the first failure cancels the rest. Fetches only what is missing."""
        missing = [index for index in range(len(self.items)) if index not in self._embeddings]
        await all_or_nothing([self._fetch(index, latest_start) for index in missing])

    async def _fetch(self, index: int, latest_start: float) -> None:
        embedding, self.times[index] = await self._cache.get(self.items[index], latest_start)
        self._embeddings[index] = embedding

    async def renew(self, lost: Embedded) -> None:
        """Embeddings again, some of `lost` having gone with their worker. Several sequences of the request may ask."""
        async with self._renewing:
            if lost != self._now():
                return
            for embedding in self._embeddings.values():
                self._cache.discard(embedding)
                self._cache.unpin(embedding)
            self._embeddings.clear()
            await self.fetch(latest_start=0.0)

    def prefilled(self) -> None:
        """The embeddings have been used. Pixels stay where a prefill that is done again might not find them."""
        if self._buffers.survives_owner:
            self._release_pixels()

    def release(self) -> None:
        self._release_pixels()
        for embedding in self._embeddings.values():
            self._cache.unpin(embedding)
        self._embeddings.clear()

    def _release_pixels(self) -> None:
        for item in self.items:
            self._buffers.release(item.pixels)
