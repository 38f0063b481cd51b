"""Transfer through NIXL: buffers lie in registered memory, and the reader pulls them with a remote read.

Where a buffer lies is asked of its owner over ZeroMQ. A remote read takes whatever lies there, so the reader asks again
when it has read: the buffer existed after the read, hence all through it. Buffers die with their owner.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing

import msgspec
import zmq

from easerve.errors import EAServeError, NoRoom, TransferError
from easerve.request import TensorRef
from easerve.transfer.arena import Bytes
from easerve.transfer.base import DEADLINE_SECONDS, check_length, gone
from easerve.transfer.links import Context, Link, Links
from easerve.transfer.nixl_memory import Memory, Piece, Place
from easerve.transfer.owner import GONE, OK, Frames, Owner, Request, address, give_back

logger = logging.getLogger(__name__)

_WHERE, _HELP, _CHECK = b"where", b"help", b"check"
_POLL_SECONDS = 20e-6


class Nixl:
    """Buffers in memory registered with NIXL. `endpoint` is where this process tells where they lie, "ipc://PATH" or
    "tcp://ADDRESS:*"; `owner` names it to others. `deadline`: seconds that an `open` may take.
    """

    survives_owner = False

    def __init__(self, endpoint: str, owner: str, *, deadline: float = DEADLINE_SECONDS) -> None:
        self._deadline = deadline
        context: Context = zmq.Context()
        self._links = Links(context)
        self._owner: Owner[Piece] = Owner(context, endpoint, self)
        self._memory = Memory(owner)
        self._helping: dict[bytes, float] = {}  # reader: until when, for the owner's thread only

    @property
    def buffers(self) -> int:
        return len(self._owner)

    def start(self) -> None:
        self._memory.start()
        self._owner.start()

    def put(self, data: memoryview, shape: tuple[int, ...], dtype: str) -> TensorRef:
        try:
            piece = self._memory.take(data.nbytes)
            piece.memory.data[:] = data.cast("B")
            name = self._owner.publish(piece)
        except NoRoom:
            raise
        except (EAServeError, zmq.ZMQError) as error:
            raise TransferError(f"{data.nbytes} bytes cannot be published: {error}") from error
        return TensorRef(name, shape, dtype, data.nbytes, via="nixl")

    def open(self, ref: TensorRef) -> memoryview:
        if self._owner.owns(ref.name):
            if (piece := self._owner.find(ref.name)) is None:
                raise gone(ref)
            check_length(ref, piece.memory.nbytes)
            return piece.memory.data
        return self._fetch(ref).data

    def release(self, ref: TensorRef) -> None:
        give_back(ref.name, self._owner, self._links)

    def close(self) -> None:
        self._links.close()
        self._owner.close()
        self._memory.close()

    def answer(self, request: Request, value: Piece | None) -> Frames:
        if request.verb == _HELP:
            seconds = msgspec.msgpack.decode(request.details[0], type=float)
            self._helping[request.reader] = time.monotonic() + seconds
            return []
        if request.verb == _CHECK:
            self._helping.pop(request.reader, None)
            return [GONE] if value is None else [OK]
        return [GONE] if value is None else [OK, msgspec.msgpack.encode(self._memory.place(value))]

    def pause(self) -> float | None:
        if not self._helping:
            return None
        try:
            self._memory.agent().progress()
        except TransferError as error:  # the readers will see their deadlines
            logger.warning("%s", error.message)
            self._helping.clear()
        now = time.monotonic()
        self._helping = {reader: until for reader, until in self._helping.items() if until > now}
        return _POLL_SECONDS

    def _fetch(self, ref: TensorRef) -> Bytes:
        endpoint, name = address(ref.name)
        key = name.encode()
        agent = self._memory.agent()  # loaded before the clock starts
        until = time.monotonic() + self._deadline
        with self._links.borrow(endpoint) as link:
            status, *frames = link.ask([_WHERE, key], until)
            if status.bytes == GONE:
                raise gone(ref)
            place = _read_place(ref, frames)
            check_length(ref, place.nbytes)
            target = self._memory.take(place.nbytes).memory
            if place.slab is not None:
                with closing(agent.read(place.slab, place.address, target)) as reading:
                    self._wait(reading, link, key, until)
            if link.ask([_CHECK, key], until)[0].bytes == GONE:
                raise gone(ref)
        return target

    def _wait(self, reading: Iterator[None], link: Link, key: bytes, until: float) -> None:
        """Until the read is done. One that is not done at once may need its owner's help."""
        for turn, _ in enumerate(reading):
            if turn == 0:
                link.tell([_HELP, key, msgspec.msgpack.encode(self._deadline)])
            if link.lost:
                raise link.unreachable()
            if time.monotonic() > until:
                raise link.late()
            time.sleep(_POLL_SECONDS)


def _read_place(ref: TensorRef, frames: list[zmq.Frame]) -> Place:
    try:
        return msgspec.msgpack.decode(b"".join(frame.bytes for frame in frames), type=Place)
    except msgspec.MsgspecError as error:
        raise TransferError(f"the owner of buffer {ref.name} does not serve it through NIXL") from error
