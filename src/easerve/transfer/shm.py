"""Transfer through shared memory: one file per tensor in a memory-backed folder, unlinked on release.

Plain files instead of POSIX shared-memory objects: they are swept with their folder whatever dies, and a mapping
stays valid after the unlink, so the owner need not wait for readers.
"""

from __future__ import annotations

import itertools
import mmap
from pathlib import Path

from easerve.errors import TransferError
from easerve.request import TensorRef


class SharedMemory:
    """Buffers in `folder`. `owner` must be unique among the processes that write there, restarts included."""

    def __init__(self, folder: Path, owner: str) -> None:
        self._folder = folder
        self._owner = owner
        self._count = itertools.count()

    def put(self, data: memoryview, shape: tuple[int, ...], dtype: str) -> TensorRef:
        data = data.cast("B")
        ref = TensorRef(f"{self._owner}-{next(self._count)}", shape, dtype, data.nbytes)
        try:
            with (self._folder / ref.name).open("xb", buffering=0) as file:
                written = file.write(data)
        except OSError as error:
            self.release(ref)
            raise TransferError(f"no shared memory for {data.nbytes} bytes: {error.strerror}") from error
        if written != data.nbytes:
            self.release(ref)
            raise TransferError(f"shared memory took {written} of {data.nbytes} bytes: it is full")
        return ref

    def open(self, ref: TensorRef) -> memoryview:
        try:
            with (self._folder / ref.name).open("r+b") as file:
                size = file.seek(0, 2)
                if size != ref.nbytes:
                    raise TransferError(f"buffer {ref.name} holds {size} bytes, announced were {ref.nbytes}")
                return memoryview(mmap.mmap(file.fileno(), size)) if size else memoryview(b"")
        except FileNotFoundError:
            raise TransferError(f"buffer {ref.name} is gone") from None

    def release(self, ref: TensorRef) -> None:
        (self._folder / ref.name).unlink(missing_ok=True)
