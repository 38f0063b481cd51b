"""numpy arrays over a transfer: decoded pictures on their way to encode."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from easerve.errors import TransferError
from easerve.request import TensorRef
from easerve.transfer.base import Transfer

Array = npt.NDArray[Any]


class ArrayStore:
    """Puts, opens and releases arrays."""

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer

    def put(self, array: Array) -> TensorRef:
        array = np.asarray(array, order="C")
        return self._transfer.put(array.reshape(-1).view(np.uint8).data, array.shape, array.dtype.name)

    def open(self, ref: TensorRef) -> Array:
        """The array, read-only by agreement; raises TransferError if bytes, shape and dtype disagree."""
        try:
            return np.frombuffer(self._transfer.open(ref), dtype=ref.dtype).reshape(ref.shape)
        except (TypeError, ValueError) as error:
            raise TransferError(f"buffer {ref.name} is no {ref.dtype} array of shape {ref.shape}") from error

    def release(self, ref: TensorRef) -> None:
        self._transfer.release(ref)
