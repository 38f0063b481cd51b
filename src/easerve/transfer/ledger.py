"""The front end's book of buffers: what it put itself, and what workers made for it.

Whoever makes a buffer may die before anybody else knows of it; `sweep` gives back what a dead process left and nobody
was told about.
"""

from __future__ import annotations

from easerve.request import TensorRef
from easerve.transfer.choose import Transfers


class Ledger:
    """Implements the pipeline's `Buffers` over a transfer."""

    def __init__(self, transfer: Transfers) -> None:
        self._transfer = transfer
        self._live: dict[str, TensorRef] = {}

    @property
    def survives_owner(self) -> bool:
        return self._transfer.survives_owner

    @property
    def live(self) -> int:
        """Buffers of workers that have not been released."""
        return len(self._live)

    def adopt(self, ref: TensorRef) -> None:
        """A worker's buffer is the front end's to release from now on."""
        self._live[ref.name] = ref

    def release(self, ref: TensorRef) -> None:
        """Give the memory back; a second release is ignored."""
        self._live.pop(ref.name, None)
        self._transfer.release(ref)

    def sweep(self, owner: str) -> int:
        """Release what a process that is gone had put and never announced; how many buffers that were."""
        return self._transfer.sweep(owner, keep=self._live.keys())
