"""The `easerve` command. Nothing heavy is imported before `main` runs: Ctrl-C is in its hands from the start."""

from __future__ import annotations

import os
import signal
from types import FrameType

INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended


def main() -> None:
    """Entry point. While the command is imported, Ctrl-C ends the process at once: there is nothing to take down, and
    an exception would end up in whatever the import happens to run.
    """
    by_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if by_default:  # a parent may have chosen otherwise
        signal.signal(signal.SIGINT, _end)
    from easerve.cli.app import run

    if by_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)
