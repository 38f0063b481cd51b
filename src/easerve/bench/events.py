"""Server-sent events out of bytes as they come; no I/O and no clock."""

from __future__ import annotations

from typing import Any

import msgspec


class EventReader:
    """Keeps the unfinished line between reads."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, content: bytes) -> list[bytes]:
        """The payloads of all `data:` lines that are complete now."""
        *lines, self._rest = (self._rest + content).split(b"\n")
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]


class Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Piece(msgspec.Struct):
    """A choice of a chunk."""

    delta: dict[str, Any] | None = None
    text: str | None = None
    finish_reason: str | None = None

    @property
    def bears_token(self) -> bool:
        """False for an opening chunk with nothing but the role, and for a closing one with nothing but the reason.

        A token may have no text of its own: part of a character, or a special token.
        """
        delta = self.delta or {}
        said = self.text or any(value for name, value in delta.items() if name != "role")
        return bool(said) or ("role" not in delta and self.finish_reason is None)


class Chunk(msgspec.Struct):
    """One event of a stream, as far as it is measured."""

    choices: list[Piece] | None = None
    usage: Usage | None = None
    timing: dict[str, Any] | None = None
    error: Any = None


read_chunk = msgspec.json.Decoder(Chunk).decode
