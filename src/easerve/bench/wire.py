"""How a benchmark reaches what it measures: over HTTP, or by whatever else gives records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import httpx

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.exchange import Prepared, Sender, prepare
from easerve.bench.lag import LoopLag
from easerve.bench.record import Record
from easerve.bench.request import BodyStyle, Request
from easerve.bench.target import Target
from easerve.bench.workers import Utilisation, busy_at, watched
from easerve.errors import BadRequest


class Wire(Protocol):
    """What `prepare` makes goes to `send`, and to nobody else."""

    draw: Draw  # what becomes of a workload's media
    lag: type[LoopLag]  # the place of the load generator's loop, and how late it is

    def prepare(self, request: Request) -> Any:
        """Done before the clock starts."""
        ...

    async def send(self, prepared: Any, index: int, scheduled: float, now: Callable[[], float]) -> Record:
        """Every failure becomes a record with its kind, none is raised. `now` is the run's clock."""
        ...

    def watched(self) -> AbstractAsyncContextManager[Utilisation]:
        """Notes how busy workers are while the block runs."""
        ...


class HttpWire:
    """Implements `Wire` for an OpenAI-compatible server."""

    draw: Draw = DRAWN
    lag: type[LoopLag] = LoopLag

    def __init__(self, http: httpx.AsyncClient, target: Target, *, ignore_eos: bool, timeout: float) -> None:
        self._http = http
        self._easerve = target.easerve
        self._style = BodyStyle(target.model, ignore_eos, target.easerve)
        self._sender = Sender(http, timeout)

    def prepare(self, request: Request) -> Prepared:
        """Raises BadRequest for media that no EAServe server takes."""
        if self._easerve and "audio" in request.modality:
            raise BadRequest(
                "EAServe serves no audio yet: such workloads are for easerve simulate, tune and advise, and for "
                "servers that take audio_url"
            )
        return prepare(request, self._style)

    async def send(self, prepared: Prepared, index: int, scheduled: float, now: Callable[[], float]) -> Record:
        return await self._sender.send(prepared, index, scheduled, now)

    def watched(self) -> AbstractAsyncContextManager[Utilisation]:
        return watched((lambda: busy_at(self._http)) if self._easerve else None)
