"""The memory that tensors travel in, as names and sizes."""

from __future__ import annotations

from itertools import count

from easerve.errors import TransferError
from easerve.request import TensorRef


class VirtualMemory:
    """Implements the pipeline's `Buffers`; what is in `live` has been put and not released."""

    def __init__(self, *, survives_owner: bool) -> None:
        self.survives_owner = survives_owner
        self.live: dict[str, str] = {}  # buffer -> owner
        self._numbers = count()

    def put(self, owner: str, nbytes: int) -> TensorRef:
        ref = TensorRef(f"{owner}/{next(self._numbers)}", (nbytes,), "uint8", nbytes, "virtual")
        self.live[ref.name] = owner
        return ref

    def check(self, ref: TensorRef) -> None:
        """Raises TransferError if the buffer cannot be opened any more."""
        if ref.name not in self.live:
            raise TransferError(f"buffer {ref.name} is gone: it was released, or its owner has ended")

    def release(self, ref: TensorRef) -> None:
        self.live.pop(ref.name, None)

    def lose(self, owner: str) -> None:
        """A worker is gone, and with it what lay in its own memory."""
        if not self.survives_owner:
            self.live = {name: other for name, other in self.live.items() if other != owner}
