"""The front end's end of the line to all workers: one ROUTER socket, one reader task, one handler per worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq
import zmq.asyncio

from easerve.workers.messages import FromWorker, Message, pack, unpack_at_front_end

logger = logging.getLogger(__name__)

Handler = Callable[[FromWorker], None]


class Hub:
    """Sends to workers by name, and hands each worker's messages to its handler."""

    def __init__(self, run_folder: Path) -> None:
        self.endpoint = f"ipc://{run_folder}/workers.sock"
        self._context = zmq.asyncio.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.bind(self.endpoint)
        self._handlers: dict[bytes, Handler] = {}
        self._reader: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._reader = asyncio.get_running_loop().create_task(self._read(), name="worker messages")

    def register(self, name: str, handler: Handler) -> None:
        self._handlers[name.encode()] = handler

    def unregister(self, name: str) -> None:
        self._handlers.pop(name.encode(), None)

    def send(self, name: str, message: Message) -> None:
        """Queue a message; one to a worker that is not connected is dropped, its death being noticed elsewhere."""
        self._socket.send_multipart([name.encode(), pack(message)], flags=zmq.NOBLOCK)

    async def close(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._context.destroy(linger=0)

    async def _read(self) -> None:
        while True:
            name, data = await self._socket.recv_multipart()
            handler = self._handlers.get(name)
            if handler is None:
                continue  # of a worker that was given up
            try:
                handler(unpack_at_front_end(data))
            except msgspec.ValidationError:
                logger.exception("worker %s sent what is no message", name.decode(errors="replace"))
