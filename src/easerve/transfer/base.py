"""The protocol of a transfer: put bytes down here, open them there, and give them back exactly once."""

from __future__ import annotations

from typing import Protocol

from easerve.request import TensorRef


class Transfer(Protocol):
    """Tensors as plain bytes; dtype and shape travel in the reference and are checked on opening."""

    def put(self, data: memoryview, shape: tuple[int, ...], dtype: str) -> TensorRef:
        """Copy `data` where other processes can open it."""
        ...

    def open(self, ref: TensorRef) -> memoryview:
        """The bytes of `ref`, without a copy; valid for as long as the view lives, also after `release`.

        Raises TransferError when the buffer is gone or is not as long as `ref` says.
        """
        ...

    def release(self, ref: TensorRef) -> None:
        """Give the memory back. A second release is ignored."""
        ...
