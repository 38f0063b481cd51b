"""The front end's end of the line to all workers: one ROUTER socket, one handler per worker process.

A process has an identity of its own, not its worker's name: what a dead one still said never passes for its
successor's. It has a connection for each of its threads: "identity" and "identity/stage". The socket is read on the
event loop without a task of its own: whatever has arrived is taken in one go, which is what keeps a token cheap.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq

from easerve.workers.messages import FromWorker, Message, pack, unpack_at_front_end

logger = logging.getLogger(__name__)

Handler = Callable[[FromWorker], None]


class Hub:
    """Sends to worker processes by identity, and hands the messages of each to its handler."""

    def __init__(self, run_folder: Path) -> None:
        self.endpoint = f"ipc://{run_folder}/workers.sock"
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 0)
        self._socket.bind(self.endpoint)
        self._handlers: dict[bytes, Handler] = {}

    def start(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket.FD, self._drain)

    def register(self, identity: str, handler: Handler) -> None:
        self._handlers[identity.encode()] = handler

    def unregister(self, identity: str) -> None:
        self._handlers.pop(identity.encode(), None)

    def send(self, identity: str, message: Message) -> None:
        """Queue a message; one to a process that is not connected is dropped, its death being noticed elsewhere."""
        self._socket.send_multipart([identity.encode(), pack(message)], flags=zmq.NOBLOCK)
        # The descriptor tells of new events once only, and a send may have been the one to see them.
        asyncio.get_running_loop().call_soon(self._drain)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket.FD)
        self._context.destroy(linger=0)

    def _drain(self) -> None:
        while not self._socket.closed:
            try:
                identity, data = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            self._handle(identity.partition(b"/")[0], data)

    def _handle(self, identity: bytes, data: bytes) -> None:
        handler = self._handlers.get(identity)
        if handler is None:
            return  # of a worker that was given up
        try:
            handler(unpack_at_front_end(data))
        except msgspec.ValidationError:
            logger.exception("worker %s sent what is no message", identity.decode(errors="replace"))
        except Exception:  # the messages behind it are others', and nothing would tell of them again
            logger.exception("a message of worker %s could not be handled", identity.decode(errors="replace"))
