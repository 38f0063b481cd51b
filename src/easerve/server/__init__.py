"""One server from start to stop."""

from easerve.server.run import Server, running
from easerve.server.shown import shown

__all__ = ["Server", "running", "shown"]
