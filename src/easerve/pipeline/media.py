"""The media of one request: its pixels until they are not needed any more, its embeddings until it ends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from easerve.errors import TransferError
from easerve.pipeline.cache import EmbeddingCache
from easerve.pipeline.observer import Observer
from easerve.pipeline.stages import Buffers
from easerve.pipeline.timing import ItemTimes
from easerve.pipeline.together import all_or_nothing
from easerve.request import EmbeddingRef, MediaItem, TensorRef

Embedded = tuple[tuple[MediaItem, EmbeddingRef], ...]
Reload = Callable[[int], Awaitable[TensorRef]]  # an item's pixels once more, by its place; whoever asks owns them

MAX_RELOADS = 5  # an item whose pixels were gone more often is taken for the cause


def main_encoder(embedded: Embedded) -> str:
    """The encode worker that made most of it, or nothing."""
    made: Counter[str] = Counter()
    for item, embedding in embedded:
        made[embedding.worker] += item.tokens
    return made.most_common(1)[0][0] if made else ""


class RequestMedia:
    """Owns what it is given and what it fetches; `release` gives back everything, from whatever state."""

    def __init__(
        self,
        items: Sequence[MediaItem],
        cache: EmbeddingCache,
        buffers: Buffers,
        observer: Observer,
        reload: Reload | None,
    ) -> None:
        self.items = list(items)
        self._cache = cache
        self._buffers = buffers
        self._observer = observer
        self._reload = reload
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
        for reloads_left in range(MAX_RELOADS, -1, -1):
            try:
                self._embeddings[index], self.times[index] = await self._cache.get(self.items[index], latest_start)
                return
            except TransferError:
                if self._reload is None or not reloads_left:
                    raise
                await self._lay_down_again(index, self._reload)

    async def _lay_down_again(self, index: int, reload: Reload) -> None:
        """The pixels went with the worker that had loaded them."""
        self._observer.redone("media")
        pixels = await reload(index)
        self._buffers.release(self.items[index].pixels)
        self.items[index] = replace(self.items[index], pixels=pixels)

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
