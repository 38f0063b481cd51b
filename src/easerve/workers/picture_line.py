"""Pictures that one worker loads for the front end: asked for, answered, cancelled or lost with the worker."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from easerve.errors import WorkerLost
from easerve.request import LaidPicture
from easerve.transfer.ledger import Ledger
from easerve.workers.messages import CancelPicture, Failure, LoadPicture, Message, PictureLoaded


class PictureLine:
    """A worker's part of `RemotePictures`. Buffers of pictures that nobody waits for any more are released."""

    def __init__(self, send: Callable[[Message], None], ledger: Ledger) -> None:
        self._send = send
        self._ledger = ledger
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[LaidPicture]] = {}
        self._lost: WorkerLost | None = None

    @property
    def outstanding(self) -> int:
        return len(self._waiting)

    async def load(self, url: str, param: str, salt: bytes) -> LaidPicture:
        """A picture whose buffer is the caller's. Raises what the worker raised, or WorkerLost."""
        if self._lost is not None:
            raise self._lost
        number = next(self._numbers)
        answer: asyncio.Future[LaidPicture] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._send(LoadPicture(number, url, param, salt))
        try:
            return await answer
        except asyncio.CancelledError:
            if self._waiting.pop(number, None) is not None:
                self._send(CancelPicture(number))
            elif not answer.cancelled() and answer.exception() is None:
                self._ledger.release(answer.result().pixels)  # it came in the turn of the loop that cancelled us
            raise

    def handle(self, message: PictureLoaded) -> None:
        answer = self._waiting.pop(message.number, None)
        picture = message.picture
        if isinstance(picture, Failure):
            if answer is not None and not answer.done():
                answer.set_exception(picture.error())
            return
        self._ledger.adopt(picture.pixels)
        if answer is not None and not answer.done():
            answer.set_result(picture)
        else:
            self._ledger.release(picture.pixels)

    def lose(self, lost: WorkerLost) -> None:
        """The worker is gone."""
        self._lost = lost
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(lost)
