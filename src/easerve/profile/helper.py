"""A process with the works of a model on a device of its own, which does what it is told."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from easerve.errors import StartupError
from easerve.profile.run import bind
from easerve.profile.timing import Clock
from easerve.profile.works import Works, load_works
from easerve.workers.spec import Device

Serve = Callable[[Connection, Works], None]  # a module's function; its orders come over the pipe


@contextmanager
def helper(
    serve: Serve, folder: Path, device: Device, dtype: str = "auto", clock: Clock = time.perf_counter
) -> Iterator[Connection]:
    """What its orders go into; it is ready for them, and times works by the clock.

    Raises StartupError if it dies, now or within the block.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_begin, args=(there, serve, folder, device, dtype, clock), daemon=True)
    process.start()
    there.close()  # so that its death is an end of file here
    try:
        here.recv()
        yield here
    except (EOFError, ConnectionError):
        raise StartupError(f"the process that does the works of a model on {device} has died; see above") from None
    finally:
        process.kill()
        process.join()
        here.close()


def _begin(orders: Connection, serve: Serve, folder: Path, device: Device, dtype: str, clock: Clock) -> None:
    bind(device)
    works = load_works(folder, device, dtype, clock)
    orders.send("ready")
    serve(orders, works)
