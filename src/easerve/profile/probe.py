"""How fast a device is at this moment: one work of each stage, timed again whenever it is asked for.

It takes of a core what nothing else wants (on Linux), and its clock stands still while it waits, so that it
can be asked while servers are at work, without being in their way. Derived here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from easerve.errors import StartupError
from easerve.profile.helper import helper
from easerve.profile.timing import on_core
from easerve.profile.works import Works
from easerve.workers.spec import Device

Probe = Callable[[str], float]  # seconds of a work of this kind


@contextmanager
def probe(folder: Path, device: Device, dtype: str = "auto") -> Iterator[Probe]:
    """Processes that sleep until they are asked, one on each core of the device, all at the same time.

    A reading is that of the slowest, since the threads of a worker wait for each other. Raises StartupError if the
    model does not load; a reading does if one of them has died.
    """
    parts = [Device("cpu", (core,)) for core in device.indices] if device.kind == "cpu" else [device]
    with ExitStack() as stack:
        lines = [stack.enter_context(helper(_answer, folder, one, dtype, on_core)) for one in parts]
        yield partial(_read, lines)


def _read(lines: Sequence[Connection], kind: str) -> float:
    try:
        for line in lines:
            line.send(kind)
        readings: list[float] = [line.recv() for line in lines]
    except (EOFError, OSError):
        raise StartupError("a process that tells how fast the machine is has died; see above") from None
    return max(readings)


def _answer(orders: Connection, works: Works) -> None:
    _stand_back()
    while True:
        orders.send(works[orders.recv()]())


def _stand_back() -> None:
    """Behind all others on the core, as far as the system lets it. Where Linux shares a core by sessions first
    (autogroups), this needs one of its own, of the least weight."""
    with suppress(OSError):
        os.setsid()
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
