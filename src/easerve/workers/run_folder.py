"""The folder of one server's life: its sockets and shared memory. Removing it leaves nothing behind; folders of
servers that were killed are swept by the next start.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import psutil

_PREFIX = "easerve-"


def create() -> Path:
    """A new folder in memory-backed storage, named after this process."""
    parent = memory_folder()
    sweep(parent)
    process = psutil.Process()
    started = int(process.create_time())
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{process.pid}-{started}-", dir=parent))


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove the folders of processes that are gone."""
    for folder in parent.glob(f"{_PREFIX}*-*-*"):
        if not _is_alive(folder.name):
            remove(folder)


def memory_folder() -> Path:
    """Where folders are kept in memory, so that shared memory is memory; where there is no such place, any other."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


def _is_alive(name: str) -> bool:
    try:
        pid, started = (int(part) for part in name.removeprefix(_PREFIX).split("-")[:2])
    except ValueError:
        return True  # not ours to judge
    try:
        return int(psutil.Process(pid).create_time()) == started
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
