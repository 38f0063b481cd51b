"""The media loop of an encode worker: fetches and decodes what the front end names, beside the encode stage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from easerve.media import MediaLoader, MediaOptions, PictureStore
from easerve.transfer.arrays import ArrayStore
from easerve.workers.messages import CancelPicture, LoadPicture, Message, PictureLoaded, Stop, ToWorker
from easerve.workers.stage import Desk, Send, failure


class MediaLoop:
    """Implements `Loop` over an event loop. Made and run in one thread, which has `send` to itself."""

    kinds: Sequence[type[Message]] = (LoadPicture, CancelPicture)

    def __init__(self, options: MediaOptions, arrays: ArrayStore, send: Send) -> None:
        self.desks: Sequence[Desk] = ()
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._loader = MediaLoader(options)
        self._arrays = arrays
        self._send = send
        self._loads: dict[int, asyncio.Task[None]] = {}
        self._stopped = asyncio.Event()

    def put(self, message: ToWorker) -> None:
        with suppress(RuntimeError):  # closed, so this thread has failed, which the main thread is about to notice
            self._loop.call_soon_threadsafe(self._take, message)

    def run(self) -> None:
        with self._runner:
            self._runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self._stopped.wait()
        finally:
            loads = list(self._loads.values())
            for load in loads:
                load.cancel()
            await asyncio.gather(*loads, return_exceptions=True)
            await self._loader.aclose()

    def _take(self, message: ToWorker) -> None:
        match message:
            case LoadPicture(number=number):
                self._loads[number] = load = self._loop.create_task(self._load(message))
                load.add_done_callback(lambda _: self._loads.pop(number))
            case CancelPicture(number=number):
                if number in self._loads:
                    self._loads[number].cancel()
            case Stop():
                self._stopped.set()

    async def _load(self, message: LoadPicture) -> None:
        store = PictureStore(self._loader, self._arrays, message.salt)
        try:
            [picture] = await store.load_all([(message.url, message.param)])
        except Exception as error:
            self._send(PictureLoaded(message.number, failure(error, f"loading {message.param}")))
        else:
            self._send(PictureLoaded(message.number, picture))
