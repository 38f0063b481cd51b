"""Transfer over ZeroMQ: the owner keeps the bytes and sends them to whoever asks.

One copy into the owner's store, one over the socket; none on either side beyond that. Buffers die with their owner.
"""

from __future__ import annotations

import time

import zmq

from easerve.errors import EAServeError, NoRoom, TransferError
from easerve.request import TensorRef
from easerve.transfer.base import DEADLINE_SECONDS, check_length, gone
from easerve.transfer.links import Context, Links
from easerve.transfer.owner import GONE, OK, Frames, Owner, Request, address, give_back

_GET = b"get"
_SMALL = 16384  # ZeroMQ lays smaller messages anywhere in a shared block: copied, they are aligned for any dtype


class ZeroMQ:
    """Buffers served at `endpoint`, "ipc://PATH" on one host or "tcp://ADDRESS:*" across hosts.

    `deadline`: seconds that an `open` may take.
    """

    survives_owner = False

    def __init__(self, endpoint: str, *, deadline: float = DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        context: Context = zmq.Context()
        self._links = Links(context)
        self._owner: Owner[bytearray] = Owner(context, endpoint, self)

    @property
    def buffers(self) -> int:
        return len(self._owner)

    def start(self) -> None:
        self._owner.start()

    def put(self, data: memoryview, shape: tuple[int, ...], dtype: str) -> TensorRef:
        try:
            name = self._owner.publish(bytearray(data.cast("B")))
        except MemoryError as error:
            raise NoRoom(f"no memory for {data.nbytes} bytes") from error
        except (EAServeError, zmq.ZMQError) as error:
            raise TransferError(f"{data.nbytes} bytes cannot be published: {error}") from error
        return TensorRef(name, shape, dtype, data.nbytes, via="zmq")

    def open(self, ref: TensorRef) -> memoryview:
        data = self._own(ref) if self._owner.owns(ref.name) else self._fetch(ref)
        check_length(ref, data.nbytes)
        return data

    def release(self, ref: TensorRef) -> None:
        give_back(ref.name, self._owner, self._links)

    def close(self) -> None:
        self._links.close()
        self._owner.close()

    def answer(self, request: Request, value: bytearray | None) -> Frames:
        return [GONE] if value is None else [OK, value]

    def pause(self) -> None:
        return None

    def _own(self, ref: TensorRef) -> memoryview:
        data = self._owner.find(ref.name)
        if data is None:
            raise gone(ref)
        return memoryview(data)

    def _fetch(self, ref: TensorRef) -> memoryview:
        endpoint, key = address(ref.name)
        with self._links.borrow(endpoint) as link:
            status, *frames = link.ask([_GET, key.encode()], time.monotonic() + self._deadline)
        if status.bytes == GONE or len(frames) != 1:
            raise gone(ref)
        data = frames[0].buffer
        return memoryview(bytearray(data)) if data.nbytes < _SMALL else data
