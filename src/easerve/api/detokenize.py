"""Token ids become text as they arrive, and a stop string ends the text; both decide what may leave already.

A character whose bytes are spread over several tokens leaves when its last byte is there. Text that may be the start of
a stop string waits until that is settled. What leaves in pieces, joined, is the text of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

UNFINISHED = "\ufffd"  # what decoders put for bytes that are no character (yet)
LONGEST_WAIT = (
    64  # tokens that may end mid-character in a row before they are taken for broken; a character has 4 bytes
)


class Decoder(Protocol):
    """What is needed of a tokenizer."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of `token_ids`, special tokens included."""
        ...

    def is_visible(self, token_id: int, skip_special_tokens: bool) -> bool:
        """Whether the token shows in the text: it exists and is not a special one that is to be skipped."""
        ...


class Detokenizer:
    """Incremental decoding of one sequence.

    Keeps a window of tokens: those whose text has left last (a decoder may treat a word's first space by what stands
    before it), then those that wait. A window always starts between characters, so its text continues what has left.
    """

    def __init__(self, decoder: Decoder, *, skip_special_tokens: bool = True) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        self._window: list[int] = []
        self._gone = 0  # tokens of the window whose text has left
        self._gone_text = ""

    def push(self, token_id: int) -> str:
        """The text that became certain with this token; may be empty."""
        if not self._decoder.is_visible(token_id, self._skip):
            return ""
        self._window.append(token_id)
        text = self._decoder.decode(self._window)
        if text.endswith(UNFINISHED) and len(self._window) - self._gone < LONGEST_WAIT:
            return ""
        new = text[len(self._gone_text) :]
        self._window = self._window[self._gone :]
        self._gone = len(self._window)
        self._gone_text = self._decoder.decode(self._window)
        return new

    def flush(self) -> str:
        """The rest, when no more tokens come: broken bytes show as U+FFFD."""
        rest = self._decoder.decode(self._window)[len(self._gone_text) :]
        self._window, self._gone, self._gone_text = [], 0, ""
        return rest


class StopStrings:
    """Finds the first stop string in text that comes in pieces.

    First is the one that is complete first; of several complete at the same character, the longest.
    """

    def __init__(self, strings: Sequence[str], *, include: bool = False) -> None:
        self._strings = tuple(strings)
        self._include = include
        self._held = ""
        self.found: str | None = None

    def push(self, text: str) -> str:
        """The text that may leave; the last when `found` is set by it."""
        if not self._strings:
            return text
        text = self._held + text
        hits = [(at + len(stop), at) for stop in self._strings if (at := text.find(stop)) >= 0]
        if hits:
            end, start = min(hits)
            self.found = text[start:end]
            self._held = ""
            return text[: end if self._include else start]
        keep = self._possible_start(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What was held back, when no more text comes."""
        held, self._held = self._held, ""
        return held

    def _possible_start(self, text: str) -> int:
        """Length of the longest end of `text` that is the beginning of a stop string."""
        longest = min(len(text), max(map(len, self._strings)) - 1)
        for length in range(longest, 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._strings):
                return length
        return 0
