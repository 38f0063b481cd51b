"""The HTTP server: bound before anything is loaded, ended by whoever runs it."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from easerve.errors import StartupError

PORT_ERRORS = frozenset({errno.EADDRINUSE, errno.EACCES})  # taken, or below 1024; all others are about the address


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A bound socket, so that a taken port is told at once. Raises StartupError.

    The protocol is named because asyncio turns Nagle's algorithm off for sockets that name it only; left on, tokens
    would wait for the client's acknowledgement of those before.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        _bind(listener, (host, port))
    except OSError as error:
        listener.close()
        wrong = "--port" if error.errno in PORT_ERRORS else "--host"
        raise StartupError(f"cannot listen on {host}:{port}: {error.strerror}; choose another {wrong}") from error
    with listener:
        yield listener


def _bind(listener: socket.socket, address: tuple[str, int]) -> None:
    """Alone, since of two sockets that share an address and do not listen yet, both could be bound. Only where that
    fails they may share: what holds the port may be but old connections of a server that has ended.
    """
    try:
        listener.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)


def url_of(host: str, listener: socket.socket) -> str:
    """`http://host:port` of a bound socket; addresses of IPv6 stand in brackets."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"


@asynccontextmanager
async def serving(app: FastAPI, listener: socket.socket, drain_seconds: float) -> AsyncIterator[Http]:
    """Serves until the block ends, then takes no new connection and lets running requests end, so long at most."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # its connections inherit it; see _bind
    patience = max(1, round(drain_seconds))
    http = Http(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=patience))
    http.task = asyncio.create_task(http.serve(sockets=[listener]), name="http")
    try:
        while not http.started and not http.task.done():  # noqa: ASYNC110 (the library has no event for it)
            await asyncio.sleep(0.01)
        yield http
    finally:
        http.should_exit = True
        await http.task


class Http(uvicorn.Server):
    """Signals are the command's business, not the library's: the workers have to be stopped too."""

    task: asyncio.Task[None]  # done when the server has stopped

    def hurry(self) -> None:
        """End running requests now, as at the end of a drain."""
        for request in list(self.server_state.tasks):
            request.cancel()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
