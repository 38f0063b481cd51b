"""Names of what KV blocks hold, by which sequences with the same beginning find each other's.

As vLLM's prefix cache names them: a block by its tokens, by the media in it, and by the block before it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True)
class Medium:
    """An item's placeholders in a prompt, and the content key that tells it from others; empty if nobody has told."""

    offset: int
    tokens: int
    key: str


class BlockKeys:
    """Of a sequence's blocks, as far as `tokens` fill them; whoever has the list may append to it.

    Equal keys mean equal tokens and media from the first to the block's last. A medium without a key is equal to
    nothing, so from its block on there are none.
    """

    def __init__(self, tokens: list[int], media: Sequence[Medium], block_size: int) -> None:
        self._tokens = tokens
        self._media = media
        self._size = block_size
        self._keys: list[bytes] = []

    def first(self, count: int) -> list[bytes]:
        """Of the first `count` blocks, or of as many as there are keys for."""
        for index in range(len(self._keys), min(count, len(self._tokens) // self._size)):
            media = self._media_in(index)
            if not all(medium.key for medium in media):
                break
            self._keys.append(self._key(index, media))
        return self._keys[:count]

    def _media_in(self, index: int) -> list[Medium]:
        start, end = index * self._size, (index + 1) * self._size
        return [one for one in self._media if one.offset < end and one.offset + one.tokens > start]

    def _key(self, index: int, media: Sequence[Medium]) -> bytes:
        start = index * self._size
        named = blake2b(self._keys[-1] if self._keys else b"", digest_size=32)
        named.update(array("q", self._tokens[start : start + self._size]).tobytes())
        for medium in media:
            named.update(f"{medium.offset - start}:{medium.tokens}:{medium.key};".encode())
        return named.digest()
