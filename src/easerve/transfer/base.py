"""The protocol of a transfer: put bytes down here, open them there, and give them back exactly once."""

from __future__ import annotations

from typing import Literal, Protocol

from easerve.errors import TransferError
from easerve.request import TensorRef

TransferName = Literal["auto", "shm", "zmq", "nixl"]  # what can be asked for; auto: what suits where the processes are
DEADLINE_SECONDS = 10.0  # far above any honest transfer on one host, and below the patience of a client


class Transfer(Protocol):
    """Tensors as plain bytes; dtype and shape travel in the reference and are checked on opening.

    Safe to use from several threads.
    """

    @property
    def survives_owner(self) -> bool:
        """Whether a buffer can still be opened when the process that put it is gone."""
        ...

    @property
    def buffers(self) -> int:
        """How many buffers this process has put that nobody has released yet."""
        ...

    def start(self) -> None:
        """Prepare now what the first `put` would have to wait for. Raises StartupError if it cannot work here."""
        ...

    def put(self, data: memoryview, shape: tuple[int, ...], dtype: str) -> TensorRef:
        """Copy `data` where other processes can open it. Raises NoRoom, or TransferError if it cannot be had at all."""
        ...

    def open(self, ref: TensorRef) -> memoryview:
        """The bytes of `ref`, read-only by agreement; valid for as long as the view lives, also after `release`.

        Raises TransferError when the buffer is gone, is not as long as `ref` says, when its owner cannot be
        reached, or at the transfer's deadline.
        """
        ...

    def release(self, ref: TensorRef) -> None:
        """Give the memory back. A second release is ignored. Never waits, never raises.

        Any process may; where it is not the owner, the owner may hear of it a moment later.
        """
        ...

    def close(self) -> None:
        """Release what this process has put and end its threads. Nothing can be put or opened afterwards."""
        ...


def gone(ref: TensorRef) -> TransferError:
    return TransferError(f"buffer {ref.name} is gone: it was released, or its owner has ended")


def check_length(ref: TensorRef, nbytes: int) -> None:
    """Raises TransferError unless a buffer of `nbytes` is what `ref` announces."""
    if nbytes != ref.nbytes:
        raise TransferError(f"buffer {ref.name} holds {nbytes} bytes, announced were {ref.nbytes}")
