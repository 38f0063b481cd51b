"""Pictures loaded by encode workers, wherever there is least to load: the front end sees URLs and references only."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from easerve.errors import DeadlineExceeded, Unavailable, WorkerLost
from easerve.media.store import all_laid
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
        self._members: dict[str, _Member] = {}
        self._expected: set[str] = set()
        self._changed = asyncio.Event()
        self._uses = itertools.count(1)

    def add_worker(self, worker: WorkerClient) -> None:
        self._members[worker.name] = _Member(worker)
        self._expected.discard(worker.name)
        self._wake()

    def remove_worker(self, name: str, *, returns: bool) -> None:
        """Forget a worker. Pictures that find no other wait for one that `returns`."""
        if self._members.pop(name, None) is None and name not in self._expected:
            return
        self._expected.discard(name)
        if returns:
            self._expected.add(name)
        self._wake()

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
        while not self._members:
            if not self._expected:
                raise Unavailable("no encode worker is alive; requests without media are still served", retry_after=5)
            await self._changed.wait()
        member = min(self._members.values(), key=lambda one: (one.worker.pictures.outstanding, one.last_used))
        member.last_used = next(self._uses)
        return member.worker

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


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
