"""A device in virtual time: stages that run on it together slow each other down, for as long as they do.

A piece of work (an encode batch, an engine step) has a duration under the conditions of the moment. When another piece
begins or ends, what is left of it takes as long as the new conditions say. Derived here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

Seconds = Callable[[float, float], float]  # by the piece's own share of the device and what runs beside it


@dataclass(eq=False)
class _Piece:
    seconds: Seconds
    share: float
    done: asyncio.Future[None]
    claims: bool
    left: float = 1.0  # part of it
    since: float = 0.0  # when `left` was so much
    beside: float = 0.0
    duration: float = 0.0  # of the whole piece, beside so much
    timer: asyncio.TimerHandle | None = None


class Device:
    """`held`: the part of it that encode keeps even between batches (a static partition)."""

    def __init__(self) -> None:
        self.held = 0.0
        self._pieces: list[_Piece] = []

    async def work(self, seconds: Seconds, claim: float | None = None) -> None:
        """Returns when the piece is done.

        It has the part that it claims, or else what is left of the device as it begins; it keeps that to its end, as a
        kernel keeps the SMs it was started on. Cancelling takes it off the device.
        """
        claimed = sum(one.share for one in self._pieces if one.claims)
        share = 1.0 - max(self.held, claimed) if claim is None else claim
        piece = _Piece(seconds, share, asyncio.get_running_loop().create_future(), claim is not None)
        self._pieces.append(piece)
        self._adjust()
        try:
            await piece.done
        finally:
            if piece.timer is not None:
                piece.timer.cancel()
            self._pieces.remove(piece)
            self._adjust()

    def _adjust(self) -> None:
        for piece in self._pieces:
            beside = sum(one.share for one in self._pieces if one is not piece)
            if piece.timer is None or beside != piece.beside:
                self._reschedule(piece, beside)

    def _reschedule(self, piece: _Piece, beside: float) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        if piece.timer is not None:
            piece.timer.cancel()
            if piece.duration > 0:
                piece.left = max(0.0, piece.left - (now - piece.since) / piece.duration)
        piece.since, piece.beside, piece.duration = now, beside, piece.seconds(piece.share, beside)
        piece.timer = loop.call_at(now + piece.left * piece.duration, _finish, piece.done)


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)
