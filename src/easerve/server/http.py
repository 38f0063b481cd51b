"""The HTTP server: bound before anything is loaded, ended by whoever runs it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from fastapi import FastAPI

from easerve.errors import StartupError


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A bound socket, so that a taken port is told at once. Raises StartupError.

    The protocol is named because asyncio turns Nagle's algorithm off for sockets that name it only; left on, tokens
    would wait for the client's acknowledgement of those before.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StartupError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from error
    with listener:
        yield listener


@asynccontextmanager
async def serving(app: FastAPI, listener: socket.socket, drain_seconds: float) -> AsyncIterator[asyncio.Task[None]]:
    """Serves until the block ends, then takes no new connection and lets running requests end, so long at most."""
    patience = max(1, round(drain_seconds))
    http = _Http(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=patience))
    task = asyncio.create_task(http.serve(sockets=[listener]), name="http")
    try:
        while not http.started and not task.done():  # noqa: ASYNC110 (the library has no event for it)
            await asyncio.sleep(0.01)
        yield task
    finally:
        http.should_exit = True
        await task


class _Http(uvicorn.Server):
    """Signals are the command's business, not the library's: the workers have to be stopped too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
