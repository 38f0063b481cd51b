"""Names of a prompt's beginnings, by which those that begin alike find each other's keys and values.

As vLLM's prefix cache names KV blocks: by their tokens, by the media in them, and by the block before.
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
    """Of a sequence's blocks, as far as `tokens` fill them; a list may be appended to meanwhile.

    Equal keys mean equal tokens and media from the first to the block's last. A medium without a key is equal to
    nothing, so from its block on there are none.
    """

    def __init__(self, tokens: Sequence[int], media: Sequence[Medium], block_size: int) -> None:
        """`media` in order of offset."""
        self._tokens = tokens
        self._media = media
        self._size = block_size
        self._keys: list[bytes] = []
        self._behind = 0  # media that end before the first block without a key

    @property
    def block_size(self) -> int:
        return self._size

    def first(self, count: int) -> list[bytes]:
        """Of the first `count` blocks, or of as many as there are keys for."""
        for index in range(len(self._keys), min(count, len(self._tokens) // self._size)):
            media = self._media_in(index)
            if not all(medium.key for medium in media):
                break
            self._keys.append(self._key(index, media))
        return self._keys[:count]

    def _media_in(self, index: int) -> Sequence[Medium]:
        """Blocks are asked for in their order."""
        media, start, end = self._media, index * self._size, (index + 1) * self._size
        while self._behind < len(media) and media[self._behind].offset + media[self._behind].tokens <= start:
            self._behind += 1
        last = self._behind
        while last < len(media) and media[last].offset < end:
            last += 1
        return media[self._behind : last]

    def _key(self, index: int, media: Sequence[Medium]) -> bytes:
        start = index * self._size
        named = blake2b(self._keys[-1] if self._keys else b"", digest_size=32)
        named.update(array("q", self._tokens[start : start + self._size]).tobytes())
        for medium in media:
            named.update(f"{medium.offset - start}:{medium.tokens}:{medium.key};".encode())
        return named.digest()
