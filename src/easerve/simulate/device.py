"""A device in virtual time: stages that run on it together slow each other down, for as long as they do.

A piece of work (an encode batch, an engine step) has a duration under the conditions of the moment. When another piece
begins or ends, there or on a neighbour, what is left of it takes as long as the new conditions say. Derived here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from easerve.simulate.pace import Pace, even

Seconds = Callable[[float, float], float]  # by the piece's own share of the device and what runs beside it
Slowdowns = Mapping[tuple[str, str], float]  # times as long, by a piece's kind and what a neighbour is busy with


@dataclass(eq=False)
class _Piece:
    seconds: Seconds
    kind: str
    share: float
    done: asyncio.Future[None]
    claims: bool
    left: float = 1.0  # part of it
    since: float = 0.0  # when `left` was so much
    conditions: tuple[float, float] = (0.0, 1.0)  # what runs beside it, and how much slower neighbours make it
    duration: float = 0.0  # of the whole piece, under these
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class Host:
    """Devices that share a memory: cores of one machine. What they slow each other down by is in `slowdowns`; `pace` is
    the machine's."""

    slowdowns: Slowdowns = field(default_factory=dict)
    pace: Pace = even
    devices: list[Device] = field(default_factory=list)

    def changed(self, device: Device) -> None:
        """Another piece began or ended there."""
        for one in self.devices if self.slowdowns else (device,):
            one.adjust()

    def slowdown(self, kind: str, device: Device) -> float:
        """Of a piece on the device: what each busy neighbour adds, on average over what it takes turns with."""
        if not self.slowdowns:
            return 1.0
        return 1.0 + sum(self._added(kind, one.kinds) for one in self.devices if one is not device)

    def _added(self, kind: str, others: Sequence[str]) -> float:
        return fmean(self.slowdowns.get((kind, other), 1.0) for other in others) - 1.0 if others else 0.0


class Device:
    """`held`: the part of it that encode keeps even between batches (a static partition)."""

    def __init__(self, host: Host | None = None) -> None:
        self.held = 0.0
        self._pieces: list[_Piece] = []
        self._host = host or Host()
        self._host.devices.append(self)

    @property
    def kinds(self) -> list[str]:
        """Of the pieces on it."""
        return [piece.kind for piece in self._pieces]

    async def work(self, seconds: Seconds, claim: float | None = None, kind: str = "") -> None:
        """Returns when the piece is done.

        It has the part that it claims, or else what is left of the device as it begins; it keeps that to its end, as a
        kernel keeps the SMs it was started on. Cancelling takes it off the device.
        """
        claimed = sum(one.share for one in self._pieces if one.claims)
        share = 1.0 - max(self.held, claimed) if claim is None else claim
        piece = _Piece(seconds, kind, share, asyncio.get_running_loop().create_future(), claim is not None)
        self._pieces.append(piece)
        self._host.changed(self)
        try:
            await piece.done
        finally:
            if piece.timer is not None:
                piece.timer.cancel()
            self._pieces.remove(piece)
            self._host.changed(self)

    def adjust(self) -> None:
        """Conditions may be others than they were."""
        for piece in self._pieces:
            beside = sum(one.share for one in self._pieces if one is not piece)
            conditions = (beside, self._host.slowdown(piece.kind, self))
            if piece.timer is None or conditions != piece.conditions:
                _reschedule(piece, conditions, self._host.pace)


def _reschedule(piece: _Piece, conditions: tuple[float, float], pace: Pace) -> None:
    loop = asyncio.get_running_loop()
    now = loop.time()
    if piece.timer is not None:
        piece.timer.cancel()
        if piece.duration > 0:
            piece.left = max(0.0, piece.left - (now - piece.since) / piece.duration)
    beside, slowdown = conditions
    piece.since, piece.conditions = now, conditions
    piece.duration = slowdown * pace(piece.kind, now) * piece.seconds(piece.share, beside)
    piece.timer = loop.call_at(now + piece.left * piece.duration, _finish, piece.done)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
