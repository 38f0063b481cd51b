"""Pictures loaded by encode workers, wherever there is least to load: the front end sees URLs and references only."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from easerve.errors import DeadlineExceeded, WorkerLost
from easerve.media.store import all_laid
from easerve.pipeline.encode import no_encoder
from easerve.pipeline.roster import Roster
from easerve.request import LaidPicture
from easerve.transfer.ledger import Ledger
from easerve.workers.client import WorkerClient

MAX_ATTEMPTS = 5  # a picture that so many workers died on is taken for the cause


@dataclass
class _Member:
    worker: WorkerClient
    last_used: int = 0  # a count, not a time


class PicturePool:
    """The encode workers that load media; any of them loads any picture."""

    def __init__(self, deadline: float) -> None:
        """`deadline`: seconds for one picture, retries included."""
        self._deadline = deadline
        self._roster: Roster[_Member] = Roster()
        self._uses = itertools.count(1)

    def add_worker(self, worker: WorkerClient) -> None:
        self._roster.add(worker.name, _Member(worker))

    def remove_worker(self, name: str, *, returns: bool) -> None:
        """Forget a worker. Pictures that find no other wait for one that `returns`."""
        self._roster.remove(name, returns=returns)

    async def load(self, url: str, param: str, salt: bytes) -> LaidPicture:
        """A picture whose buffer is the caller's; `param` names the request's field in errors.

        Loaded on another worker when one is lost. Raises the picture's own error, Unavailable when no encode worker is
        alive, or DeadlineExceeded. Cancelling reaches the worker.
        """
        try:
            async with asyncio.timeout(self._deadline):
                return await self._load(url, param, salt)
        except TimeoutError:
            raise DeadlineExceeded(f"{param}: not loaded within {self._deadline:g} s", param=param) from None

    async def _load(self, url: str, param: str, salt: bytes) -> LaidPicture:
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return await (await self._next()).pictures.load(url, param, salt)
            except WorkerLost:
                continue
        return await (await self._next()).pictures.load(url, param, salt)

    async def _next(self) -> WorkerClient:
        """The worker with the fewest pictures to load, of several the one that was asked longest ago."""
        members = await self._roster.some(no_encoder())
        member = min(members.values(), key=lambda one: (one.worker.pictures.outstanding, one.last_used))
        member.last_used = next(self._uses)
        return member.worker


class RemotePictures:
    """Implements the API's PictureLoader over a pool; `salt` is the part of content keys that is not pixels."""

    def __init__(self, pool: PicturePool, ledger: Ledger, salt: bytes) -> None:
        self._pool = pool
        self._ledger = ledger
        self._salt = salt

    async def load_all(self, sources: Sequence[tuple[str, str]]) -> list[LaidPicture]:
        """Pictures of (url, param) pairs, in order; the caller owns their buffers. All or nothing, also on a cancel."""
        return await all_laid(self._load, sources, self._ledger.release)

    async def _load(self, url: str, param: str) -> LaidPicture:
        return await self._pool.load(url, param, self._salt)
