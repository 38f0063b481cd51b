"""One server from start to stop."""

from easerve.server.run import Server, running

__all__ = ["Server", "running"]
