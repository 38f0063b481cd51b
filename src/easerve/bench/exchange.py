"""Sends one request, reads its stream, and notes when what came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import httpx
import msgspec

from easerve.bench.events import EventReader, read_chunk
from easerve.bench.record import Record
from easerve.bench.request import BodyStyle, Request, body

PATH = "/v1/chat/completions"
CONTENT = {"content-type": "application/json"}
DONE = b"[DONE]"
LONGEST_MESSAGE = 300  # characters of an error that are kept


@dataclass(frozen=True)
class Prepared:
    """A request as it goes over the wire; made before the clock starts."""

    content: bytes
    modality: str
    media: int


def prepare(request: Request, style: BodyStyle) -> Prepared:
    return Prepared(body(request, style), request.modality, request.media)


class _Failed(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Sender:
    """Sends over one client; every failure becomes a record with its kind, none is raised."""

    def __init__(self, http: httpx.AsyncClient, timeout: float) -> None:
        self._http = http
        self._timeout = timeout

    async def send(self, prepared: Prepared, index: int, scheduled: float, now: Callable[[], float]) -> Record:
        """`now` is the run's clock, which the record's times are of."""
        record = Record(index, prepared.modality, prepared.media, scheduled, now())
        try:
            async with asyncio.timeout(self._timeout):
                await self._stream(prepared.content, record, now)
        except _Failed as failure:
            record.error, record.message = failure.kind, str(failure)[:LONGEST_MESSAGE]
        except TimeoutError:
            record.error = "timeout"
        except httpx.ConnectError as error:
            record.error, record.message = "connect", str(error)
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            record.error, record.message = "broken stream", f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]
        record.ended = now()
        return record

    async def _stream(self, content: bytes, record: Record, now: Callable[[], float]) -> None:
        async with self._http.stream("POST", PATH, content=content, headers=CONTENT) as response:
            if response.status_code != 200:
                raise _Failed(f"http {response.status_code}", (await response.aread()).decode(errors="replace"))
            reader, complete = EventReader(), False
            async for piece in response.aiter_bytes():
                moment = now()
                for event in reader.feed(piece):
                    complete |= event == DONE or _note(event, record, moment)
        if not record.chunks:
            raise _Failed("no token", "the stream ended before the first token")
        if not complete:
            raise _Failed("cut short", f"the stream ended without a finish reason or {DONE.decode()}")
        record.output_tokens = record.output_tokens or len(record.tokens)


def _note(event: bytes, record: Record, moment: float) -> bool:
    """Whether the answer is complete with this."""
    chunk = read_chunk(event)
    if chunk.error:
        raise _Failed("error in stream", str(chunk.error))
    if chunk.choices:
        record.chunks.append(moment)
        if any(piece.bears_token for piece in chunk.choices):
            record.tokens.append(moment)
    if chunk.usage is not None:
        record.prompt_tokens = chunk.usage.prompt_tokens
        record.output_tokens = chunk.usage.completion_tokens or 0
    if chunk.timing is not None:
        record.timing = chunk.timing
    return any(piece.finish_reason is not None for piece in chunk.choices or ())
