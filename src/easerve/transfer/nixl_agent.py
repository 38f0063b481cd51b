"""The one place that knows NIXL's interface: register memory, and read another process's registered memory.

NIXL's own progress thread is off, because it keeps a core busy without a pause. Where the network needs the owner's
help for a read, the owner gives it with `progress` while it knows of a reader.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from easerve.errors import StartupError, TransferError
from easerve.transfer.arena import Bytes

_NETWORK = "UCX"
_MEMORY = "DRAM"


def is_installed() -> bool:
    return importlib.util.find_spec("nixl") is not None


def check_installed() -> None:
    """Raises StartupError, with the remedy, when NIXL is not there."""
    if not is_installed():
        raise StartupError("NIXL is not installed; install easerve[nixl], or choose the transfer 'shm' or 'zmq'")


class Registered(msgspec.Struct, frozen=True):
    """A slab of an agent's memory: what another agent must know to read from it."""

    agent: str
    slab: int
    metadata: bytes


class Agent:
    """This process's NIXL agent. Raises StartupError if NIXL cannot run here; every other error is a TransferError."""

    def __init__(self, name: str) -> None:
        check_installed()
        try:
            api: Any = importlib.import_module("nixl._api")
            logging.getLogger("nixl").setLevel(logging.WARNING)
            config = api.nixl_agent_config(enable_prog_thread=False, backends=[_NETWORK])
            self._agent: Any = api.nixl_agent(name, config)
        except Exception as error:
            raise StartupError(f"NIXL does not start: {error}") from error
        self._name = name
        self._lock = threading.Lock()
        self._slabs: list[Registered] = []
        self._descriptors: list[Any] = []
        self._known: defaultdict[str, set[int]] = defaultdict(set)
        self._reading: Counter[str] = Counter()  # agent: reads under way
        self._broken: set[str] = set()  # agents to forget when nothing is read from them any more
        self._in_doubt: list[Bytes] = []  # targets of reads that were given up: something may still write to them

    def register(self, slab: Bytes) -> None:
        """Make a slab readable, and usable as the target of reads."""
        with self._using("register memory"):
            descriptors = self._agent.register_memory([(slab.ctypes.data, slab.nbytes, 0, "")], _MEMORY)
            metadata = self._agent.get_partial_agent_metadata(descriptors, True, [_NETWORK])
            self._descriptors.append(descriptors)
            self._slabs.append(Registered(self._name, len(self._slabs), metadata))

    def slab(self, number: int) -> Registered:
        """The slab that was registered as `number`, counted from 0."""
        return self._slabs[number]

    def read(self, source: Registered, address: int, target: Bytes) -> Generator[None, None, None]:
        """Fill `target`, a piece of a registered slab, from `address` of another agent's.

        Yields for as long as it is under way; closing the iterator before its end gives the read up.
        """
        what = f"read from {source.agent}"
        handle: Any = None
        state = "ERR"
        try:
            with self._using(what):
                self._reading[source.agent] += 1
                handle = self._prepare(source, address, target)
                state = self._agent.transfer(handle)
            while state == "PROC":
                yield
                with self._using(what):
                    state = self._agent.check_xfer_state(handle)
        except TransferError:
            state = "ERR"
            raise
        finally:
            with self._lock:
                self._end(source, handle, target, state)
        if state != "DONE":
            raise TransferError(f"NIXL cannot {what}")

    def progress(self) -> None:
        """Help reads of this process's memory along, where the network needs that."""
        with self._using("make progress"):
            self._agent.get_new_notifs()

    def close(self) -> None:
        with self._lock:
            for descriptors in self._descriptors:
                self._agent.deregister_memory(descriptors)
            self._descriptors.clear()
            for agent in list(self._known):
                self._forget(agent)
            self._agent = None

    @contextmanager
    def _using(self, what: str) -> Iterator[None]:
        """One thread at a time; NIXL's errors, of many kinds, become TransferError."""
        with self._lock:
            try:
                yield
            except Exception as error:
                raise TransferError(f"NIXL cannot {what}: {error}") from error

    def _prepare(self, source: Registered, address: int, target: Bytes) -> Any:
        if source.slab not in self._known[source.agent]:
            self._agent.add_remote_agent(source.metadata)
            self._known[source.agent].add(source.slab)
        here = self._agent.get_xfer_descs([(target.ctypes.data, target.nbytes, 0)], _MEMORY)
        there = self._agent.get_xfer_descs([(address, target.nbytes, 0)], _MEMORY)
        return self._agent.initialize_xfer("READ", here, there, source.agent)

    def _end(self, source: Registered, handle: Any, target: Bytes, state: str) -> None:
        if handle is not None:
            with suppress(Exception):  # NIXL keeps it when it is still under way
                handle.release()
        if state == "PROC":
            self._in_doubt.append(target)
        if state != "DONE":
            self._broken.add(source.agent)
        self._reading[source.agent] -= 1
        if not self._reading[source.agent]:
            del self._reading[source.agent]
            if source.agent in self._broken:
                self._forget(source.agent)

    def _forget(self, agent: str) -> None:
        """Its owner has ended, or is connected to afresh next time."""
        self._broken.discard(agent)
        self._known.pop(agent, None)
        with suppress(Exception):
            self._agent.remove_remote_agent(agent)
