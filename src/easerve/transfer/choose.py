"""Which backend a process puts its buffers with, and one transfer that opens what any backend published."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import get_args

from easerve.errors import EAServeError, StartupError, TransferError
from easerve.request import TensorRef
from easerve.transfer.base import DEADLINE_SECONDS, Transfer, TransferName
from easerve.transfer.nixl_agent import is_installed as nixl_is_installed
from easerve.transfer.nixl_backend import Nixl
from easerve.transfer.shm import SharedMemory
from easerve.transfer.zeromq import ZeroMQ

KINDS: tuple[TransferName, ...] = get_args(TransferName)


class Locality(Enum):
    """Where the processes are that exchange buffers."""

    SAME_HOST = "same_host"
    ACROSS_HOSTS = "across_hosts"


class Transfers:
    """Puts with the backend `chosen`; opens and releases with the one a reference names, made when first needed.

    Counts for the metrics: `bytes_put`, `bytes_opened`, `opens`, and `buffers`.
    """

    def __init__(
        self, makers: dict[str, Callable[[], Transfer]], chosen: str, sockets: Callable[[str], Collection[Path]]
    ) -> None:
        """`sockets`: the files of those of an owner."""
        self.kind = chosen
        self.bytes_put = 0
        self.bytes_opened = 0
        self.opens = 0
        self._makers = makers
        self._sockets = sockets
        self._made: dict[str, Transfer] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._chosen = self._backend(chosen)
        try:
            self._chosen.start()
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Its chosen backend has been started."""

    @property
    def survives_owner(self) -> bool:
        return self._chosen.survives_owner

    @property
    def buffers(self) -> int:
        return self._chosen.buffers

    def put(self, data: memoryview, shape: tuple[int, ...], dtype: str) -> TensorRef:
        if self._closed:
            raise TransferError("this transfer is closed")
        ref = self._chosen.put(data, shape, dtype)
        with self._lock:
            self.bytes_put += ref.nbytes
        return ref

    def open(self, ref: TensorRef) -> memoryview:
        data = self._backend(ref.via).open(ref)
        with self._lock:
            self.bytes_opened += ref.nbytes
            self.opens += 1
        return data

    def release(self, ref: TensorRef) -> None:
        with suppress(EAServeError):
            self._backend(ref.via).release(ref)

    def sweep(self, owner: str, keep: Collection[str]) -> int:
        """Release what a process that has ended left, except the names in `keep`; how many buffers that were.

        Of buffers that die with their owner nothing is left but the files of the sockets they were read through.
        """
        for file in self._sockets(owner):
            file.unlink(missing_ok=True)
        try:
            shared = self._backend("shm")
        except TransferError:  # closed
            return 0
        return shared.sweep(owner, keep) if isinstance(shared, SharedMemory) else 0

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for backend in self._made.values():
            backend.close()

    def _backend(self, via: str) -> Transfer:
        with self._lock:
            if self._closed:
                raise TransferError("this transfer is closed")
            if via not in self._makers:
                raise TransferError(f"there is no transfer {via!r}; there are {', '.join(self._makers)}")
            if via not in self._made:
                self._made[via] = self._makers[via]()
            return self._made[via]


def choose(kind: str, locality: Locality) -> str:
    """The backend to put with. Raises StartupError for one that does not exist, or cannot reach across hosts."""
    if kind not in KINDS:
        raise StartupError(f"there is no transfer {kind!r}; there are {', '.join(KINDS)}")
    across = locality is Locality.ACROSS_HOSTS
    if kind == "shm" and across:
        raise StartupError("shared memory does not leave its host; choose the transfer 'nixl' or 'zmq'")
    if kind != "auto":
        return kind
    if not across:
        return "shm"
    return "nixl" if nixl_is_installed() else "zmq"


def make_transfer(
    kind: str,
    run_folder: Path,
    owner: str,
    *,
    locality: Locality = Locality.SAME_HOST,
    address: str = "127.0.0.1",
    deadline: float = DEADLINE_SECONDS,
) -> Transfers:
    """The transfer of one process.

    `kind` is "auto", "shm", "zmq" or "nixl"; `owner` is unique among the processes of the run folder, restarts
    included; `address` is where other hosts reach this one; `deadline` is the seconds an `open` may take. Raises
    StartupError when the backend cannot work here.
    """

    def socket(owner: str, via: str) -> Path:
        return run_folder / f"{owner}.{via}"

    def endpoint(via: str) -> str:
        return f"tcp://{address}:*" if locality is Locality.ACROSS_HOSTS else f"ipc://{socket(owner, via)}"

    makers: dict[str, Callable[[], Transfer]] = {
        "shm": lambda: SharedMemory(run_folder, owner),
        "zmq": lambda: ZeroMQ(endpoint("zmq"), deadline=deadline),
        "nixl": lambda: Nixl(endpoint("nixl"), owner, deadline=deadline),
    }
    return Transfers(makers, choose(kind, locality), lambda owner: [socket(owner, via) for via in makers])
