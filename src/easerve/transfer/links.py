"""A reader's connections to the owners of buffers, over ZeroMQ.

A connection that breaks, or is refused, is told at once by the socket's monitor instead of by the deadline; hence it
never reconnects: the buffers of an owner that went away went with it.
"""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import zmq

from easerve.errors import TransferError

_LOST = (
    zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | zmq.EVENT_CONNECT_RETRIED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
)
_FLUSH_MS = 500  # how long closing waits for releases that are still on their way

Context = zmq.Context[zmq.Socket[bytes]]


class Link:
    """One connection, used by one thread at a time."""

    def __init__(self, context: Context, endpoint: str) -> None:
        self._endpoint = endpoint
        with ExitStack() as opened:
            self._socket = opened.enter_context(context.socket(zmq.DEALER))
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
            self._socket.setsockopt(zmq.SNDHWM, 0)  # releases must not wait for a stalled owner
            self._monitor = opened.enter_context(self._socket.get_monitor_socket(_LOST))
            self._monitor.setsockopt(zmq.LINGER, 0)
            self._socket.connect(endpoint)
            self._opened = opened.pop_all()

    @property
    def lost(self) -> bool:
        return bool(self._monitor.poll(0))

    def tell(self, request: list[bytes]) -> None:
        try:
            self._socket.send_multipart(request, flags=zmq.NOBLOCK)
        except zmq.Again:
            raise self.unreachable() from None

    def ask(self, request: list[bytes], until: float) -> list[zmq.Frame]:
        """The owner's answer; raises TransferError when the owner is lost, or at `until` (of the monotonic clock)."""
        self.tell(request)
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._monitor, zmq.POLLIN)
        ready = dict(poller.poll(max(0, math.ceil((until - time.monotonic()) * 1000))))
        if self._socket in ready:
            return self._socket.recv_multipart(copy=False)
        if self._monitor in ready:
            raise self.unreachable()
        raise self.late()

    def unreachable(self) -> TransferError:
        return TransferError(f"the owner at {self._endpoint} cannot be reached: it has ended")

    def late(self) -> TransferError:
        return TransferError(f"the owner at {self._endpoint} did not answer before the deadline")

    def close(self) -> None:
        self._opened.close()

    def flush(self) -> None:
        """Close, but first wait a moment, in the background, for what was told to go out."""
        with suppress(zmq.ZMQError):
            if not self.lost:
                self._socket.setsockopt(zmq.LINGER, _FLUSH_MS)
        self.close()


class Links:
    """Connections to any number of owners. One is as good as another: each thread takes an idle one or makes one."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._idle: defaultdict[str, list[Link]] = defaultdict(list)
        self._closed = False

    @contextmanager
    def borrow(self, endpoint: str) -> Iterator[Link]:
        """A connection to `endpoint`; after an error it is dropped, since a late answer may still come over it."""
        try:
            link = self._take(endpoint)
        except zmq.ZMQError as error:
            raise TransferError(f"no connection to {endpoint}: {error}") from error
        try:
            yield link
        except zmq.ZMQError as error:
            link.close()
            raise TransferError(f"the connection to {endpoint} failed: {error}") from error
        except BaseException:
            link.close()
            raise
        self._give(endpoint, link)

    def tell(self, endpoint: str, request: list[bytes]) -> None:
        """Send and forget: what cannot be sent has nobody to hear it."""
        with suppress(TransferError), self.borrow(endpoint) as link:
            link.tell(request)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            links = [link for idle in self._idle.values() for link in idle]
            self._idle.clear()
        for link in links:
            link.flush()

    def _take(self, endpoint: str) -> Link:
        with self._lock:
            idle = self._idle[endpoint]
            while idle:
                if not (link := idle.pop()).lost:
                    return link
                link.close()
            self._sweep()
        return Link(self._context, endpoint)

    def _sweep(self) -> None:
        """Drop what leads to owners that have ended, asked for again or not."""
        for endpoint, idle in list(self._idle.items()):
            for link in [link for link in idle if link.lost]:
                idle.remove(link)
                link.close()
            if not idle:
                del self._idle[endpoint]

    def _give(self, endpoint: str, link: Link) -> None:
        with self._lock:
            if not self._closed:
                self._idle[endpoint].append(link)
                return
        link.flush()
