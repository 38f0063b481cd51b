"""What a process publishes over ZeroMQ: values by name, and a small thread that answers for them.

A name is `endpoint#token.number`. The token is drawn anew by every owner, so that no name of an earlier life, and no
guess, ever meets a buffer of this one.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import zmq

from easerve.errors import StartupError
from easerve.transfer.links import Context, Links

OK, GONE = b"ok", b"gone"
FREE = b"free"
_LOCAL = "ipc://"
_MAX_REQUEST_BYTES = 4096

Value = TypeVar("Value")
Value_contra = TypeVar("Value_contra", contravariant=True)
Frames = Sequence["bytes | bytearray"]

logger = logging.getLogger(__name__)


class Request(NamedTuple):
    reader: bytes  # identity of the connection
    verb: bytes
    details: list[bytes]


class Answers(Protocol[Value_contra]):
    """A backend's part in the conversation; called in the owner's thread."""

    def answer(self, request: Request, value: Value_contra | None) -> Frames:
        """What to tell about a value; None when there is none of that name."""
        ...

    def pause(self) -> float | None:
        """Work that goes on between requests; seconds until it wants to be called again, None for no need."""
        ...


class Owner(Generic[Value]):
    """Values under names that any process can ask for. Its thread runs once something is published."""

    def __init__(self, context: Context, endpoint: str, answers: Answers[Value]) -> None:
        self._context = context
        self._endpoint = endpoint
        self._answers = answers
        self._token = secrets.token_hex(8)
        self._count = itertools.count()
        self._values: dict[str, Value] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._values)

    def start(self) -> None:
        """Bind and answer; does nothing the second time. Raises StartupError if the endpoint cannot be had."""
        with self._lock:
            if self._closed:
                raise StartupError("this transfer is closed")
            if self._thread is not None:
                return
            socket = self._bind()
            self._thread = threading.Thread(target=self._run, args=(socket,), name="transfer-owner", daemon=True)
            self._thread.start()

    def publish(self, value: Value) -> str:
        self.start()
        key = f"{self._token}.{next(self._count)}"
        self._values[key] = value
        return f"{self._endpoint}#{key}"

    def owns(self, name: str) -> bool:
        return name.startswith(f"{self._endpoint}#{self._token}.")

    def find(self, name: str) -> Value | None:
        """A value of this process; None when it was withdrawn."""
        return self._values.get(address(name)[1])

    def withdraw(self, name: str) -> None:
        self._values.pop(address(name)[1], None)

    def close(self) -> None:
        """Forget all values, take no more, and end the thread together with the context."""
        with self._lock:
            self._closed = True
        self._values.clear()
        self._context.term()
        if self._thread is not None:
            self._thread.join()

    def _bind(self) -> zmq.Socket[bytes]:
        socket = self._context.socket(zmq.ROUTER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.BACKLOG, 1024)
        socket.setsockopt(zmq.MAXMSGSIZE, _MAX_REQUEST_BYTES)
        try:
            socket.bind(self._endpoint)
        except zmq.ZMQError as error:
            socket.close()
            raise StartupError(f"buffers cannot be served at {self._endpoint}: {error}") from error
        self._endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)
        return socket

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        try:
            while True:
                self._turn(socket)
        except zmq.ContextTerminated:
            pass
        finally:
            socket.close()
            if self._endpoint.startswith(_LOCAL):
                Path(self._endpoint.removeprefix(_LOCAL)).unlink(missing_ok=True)

    def _turn(self, socket: zmq.Socket[bytes]) -> None:
        wait = self._answers.pause()
        if wait is not None and not socket.poll(0):
            time.sleep(wait)  # finer than the milliseconds of a poll
            return
        reader, *frames = socket.recv_multipart()
        if reply := self._reply(reader, frames):
            socket.send_multipart([reader, *reply], copy=False)

    def _reply(self, reader: bytes, frames: list[bytes]) -> Frames:
        try:
            verb, key, *details = frames
            if verb == FREE:
                self._values.pop(key.decode(), None)
                return []
            return self._answers.answer(Request(reader, verb, details), self._values.get(key.decode()))
        except Exception:  # the thread must outlive whatever it is sent
            logger.exception("a request for a buffer could not be answered")
            return [GONE]


def give_back(name: str, owner: Owner[Any], links: Links) -> None:
    """Withdraw a value of this process, or tell its owner to."""
    if owner.owns(name):
        owner.withdraw(name)
    else:
        endpoint, key = address(name)
        links.tell(endpoint, [FREE, key.encode()])


def address(name: str) -> tuple[str, str]:
    """Endpoint and key of a published name."""
    endpoint, _, key = name.rpartition("#")
    return endpoint, key
