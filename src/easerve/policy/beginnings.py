"""What a worker's prefix cache may have, as the front end remembers it; prompts go where their beginning is."""

from __future__ import annotations

from easerve.policy.prefix import BlockKeys

BLOCK = 32  # tokens; coarser than a KV block, since it only has to tell workers apart
MOST_BLOCKS = 8192  # of one worker: 262,144 tokens


class Beginnings:
    """Of the prompts that one worker was given, the latest `most` blocks. A guess: the worker's own cache may have more
    or less, and a worker that comes back has nothing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._blocks: dict[bytes, None] = {}  # the longest unused first

    def known_tokens(self, prompt: BlockKeys) -> int:
        """How many of its first tokens the worker has been given before."""
        known = 0
        for key in self._keys(prompt):
            if key not in self._blocks:
                break
            known += prompt.block_size
        return known

    def add(self, prompt: BlockKeys) -> None:
        for key in reversed(self._keys(prompt)):  # what ends a beginning goes first
            self._blocks.pop(key, None)
            self._blocks[key] = None
        while len(self._blocks) > self._most:
            del self._blocks[next(iter(self._blocks))]

    def _keys(self, prompt: BlockKeys) -> list[bytes]:
        return prompt.first(self._most)
