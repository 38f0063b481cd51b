"""The encode desk in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from easerve.costs.base import ItemSize
from easerve.errors import WorkerLost
from easerve.pipeline.stages import EncodedBatch
from easerve.request import EmbeddingRef, MediaItem
from easerve.simulate.desk import Desk, Station
from easerve.simulate.sharing import Shares


class EncodeDesk(Desk):
    """One batch after the other, each on its share of the device. `size` tells what the encoder sees of an item."""

    stage = "encode"

    def __init__(self, station: Station, size: Callable[[MediaItem], ItemSize], shares: Shares) -> None:
        super().__init__(station)
        self._size = size
        self._shares = shares
        self._batches: deque[tuple[Sequence[MediaItem], asyncio.Future[EncodedBatch]]] = deque()  # at work on the first

    async def encode(self, items: Sequence[MediaItem]) -> EncodedBatch:
        answer: asyncio.Future[EncodedBatch] = asyncio.get_running_loop().create_future()
        self._batches.append((items, answer))
        self.station.woken.set()
        return await answer

    def has_work(self) -> bool:
        return bool(self._batches)

    async def work(self) -> None:
        items, answer = self._batches[0]
        sizes, costs = [self._size(item) for item in items], self.station.costs
        claim = self._shares.claim(sizes, asyncio.get_running_loop().time())
        seconds = await self.spend(lambda share, beside: costs.encode(sizes, share, beside), "encode", claim)
        self._batches.popleft()
        answer.set_result(EncodedBatch([self._embedding(item) for item in items], seconds))

    def lose(self, lost: WorkerLost) -> None:
        while self._batches:
            self._batches.popleft()[1].set_exception(lost)

    def _embedding(self, item: MediaItem) -> EmbeddingRef:
        station = self.station
        ref = station.memory.put(station.worker, item.tokens * station.costs.embedding_bytes_per_token)
        return EmbeddingRef(key=item.key, tokens=item.tokens, tensors={"values": ref})
