"""A process's memory that others may read through NIXL, and the agent it is registered with, both made when needed."""

from __future__ import annotations

import secrets
import threading
from typing import NamedTuple

import msgspec
import numpy as np

from easerve.errors import NoRoom, StartupError, TransferError
from easerve.transfer.arena import Arena, Bytes
from easerve.transfer.nixl_agent import Agent, Registered


class Piece(NamedTuple):
    slab: int
    memory: Bytes


class Place(msgspec.Struct, frozen=True):
    """Where a buffer lies, as its owner tells it."""

    nbytes: int
    address: int
    slab: Registered | None  # None: of no length, hence nowhere


class Memory:
    """Made once per transfer; `owner` names it to other agents."""

    def __init__(self, owner: str) -> None:
        self._name = f"{owner}-{secrets.token_hex(8)}"
        self._lock = threading.Lock()
        self._made: tuple[Agent, Arena] | None = None

    def start(self) -> None:
        """Raises StartupError if there is no NIXL."""
        self._parts()

    def agent(self) -> Agent:
        """Raises TransferError if there is no NIXL."""
        try:
            return self._parts()[0]
        except StartupError as error:
            raise TransferError(error.message) from error

    def take(self, nbytes: int) -> Piece:
        """Raises NoRoom if there is no such memory, TransferError if there is no NIXL."""
        try:
            return Piece(*self._parts()[1].take(nbytes)) if nbytes else Piece(0, np.empty(0, np.uint8))
        except MemoryError as error:
            raise NoRoom(f"no memory for {nbytes} bytes") from error
        except StartupError as error:
            raise TransferError(error.message) from error

    def place(self, piece: Piece) -> Place:
        nbytes = piece.memory.nbytes
        slab = self.agent().slab(piece.slab) if nbytes else None
        return Place(nbytes, piece.memory.ctypes.data, slab)

    def close(self) -> None:
        with self._lock:
            if self._made is not None:
                self._made[0].close()

    def _parts(self) -> tuple[Agent, Arena]:
        with self._lock:
            if self._made is None:
                agent = Agent(self._name)
                self._made = agent, Arena(agent.register)
            return self._made
