"""A worker thread's connection to the front end."""

from __future__ import annotations

import zmq


def connect(context: zmq.Context[zmq.Socket[bytes]], endpoint: str, identity: str) -> zmq.Socket[bytes]:
    """Used by the thread that made it only."""
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, identity.encode())
    socket.setsockopt(zmq.LINGER, 500)
    socket.connect(endpoint)
    return socket
