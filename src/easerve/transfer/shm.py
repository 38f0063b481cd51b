"""Transfer through shared memory: one file per tensor in a memory-backed folder, unlinked on release.

Plain files instead of POSIX shared-memory objects: they are swept with their folder whatever dies, and a mapping
stays valid after the unlink, so the owner need not wait for readers. Nothing here waits, so there is no deadline.
"""

from __future__ import annotations

import errno
import itertools
import mmap
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from easerve.errors import NoRoom, StartupError, TransferError
from easerve.request import TensorRef
from easerve.transfer.base import check_length, gone

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EFBIG)


class SharedMemory:
    """Buffers in `folder`. `owner` must be unique among the processes that write there, restarts included."""

    survives_owner = True

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner
        self._count = itertools.count()

    @property
    def buffers(self) -> int:
        return len(self._files(self._owner))

    def start(self) -> None:
        if not self._folder.is_dir():
            raise StartupError(f"there is no folder {self._folder} for shared memory")

    def put(self, data: memoryview, shape: tuple[int, ...], dtype: str) -> TensorRef:
        data = data.cast("B")
        ref = TensorRef(f"{self._owner}-{next(self._count)}", shape, dtype, data.nbytes)
        try:
            with (self._folder / ref.name).open("xb", buffering=0) as file:
                while data:  # one write takes 2 GiB at most
                    data = data[file.write(data) :]
        except OSError as error:
            self.release(ref)
            kind = NoRoom if error.errno in _FULL else TransferError
            raise kind(f"no shared memory for {ref.nbytes} bytes: {error.strerror}") from error
        return ref

    def open(self, ref: TensorRef) -> memoryview:
        try:
            with (self._folder / ref.name).open("r+b") as file:
                size = file.seek(0, 2)
                check_length(ref, size)
                return memoryview(mmap.mmap(file.fileno(), size)) if size else memoryview(b"")
        except FileNotFoundError:
            raise gone(ref) from None
        except OSError as error:
            raise TransferError(f"buffer {ref.name} cannot be mapped: {error.strerror}") from error

    def release(self, ref: TensorRef) -> None:
        with suppress(OSError):
            (self._folder / ref.name).unlink()

    def sweep(self, owner: str, keep: Collection[str] = ()) -> int:
        """Release what `owner` has put, except the names in `keep`; how many buffers that were."""
        left = [path for path in self._files(owner) if path.name not in keep]
        for path in left:
            path.unlink(missing_ok=True)
        return len(left)

    def close(self) -> None:
        self.sweep(self._owner)

    def _files(self, owner: str) -> list[Path]:
        """Asked of the folder, not remembered: any process may have released a buffer."""
        with suppress(OSError):
            return [path for path in self._folder.iterdir() if _is_of(owner, path.name)]
        return []


def _is_of(owner: str, name: str) -> bool:
    stem, _, number = name.rpartition("-")
    return stem == owner and number.isdecimal()
