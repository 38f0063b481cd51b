"""Conversations whose every turn sends all that went before, pictures included.

Load is open: nobody waits for an answer before the next turn, so earlier answers are made up, of the length asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Literal

from pydantic import Field

from easerve.bench.drawing import DRAWN, Draw
from easerve.bench.pictures import Look
from easerve.bench.request import Request, user_message
from easerve.bench.words import text
from easerve.bench.workloads.base import Pixels, Workload


class MultiTurn(Workload):
    """`conversations` are under way at a time and take turns; after `turns` one ends and another begins.

    Each turn adds `images` new pictures.
    """

    kind: Literal["multi-turn"] = "multi-turn"
    conversations: int = Field(default=8, ge=1)
    turns: int = Field(default=4, ge=1)
    images: int = Field(default=1, ge=0)
    size: Pixels = (224, 224)
    look: Look = "smooth"
    words: int = Field(default=32, ge=1)
    output_tokens: int = Field(default=32, ge=1)

    def requests(self, rng: Random, draw: Draw = DRAWN) -> Iterator[Request]:
        # they start at different turns, so that the mix of lengths is the same from the first request on
        running = [self._conversation(rng, draw, skip=index % self.turns) for index in range(self.conversations)]
        while True:
            for place, conversation in enumerate(running):
                request = next(conversation, None)
                if request is None:
                    running[place] = self._conversation(rng, draw, skip=0)
                    request = next(running[place])
                yield request

    def _conversation(self, rng: Random, draw: Draw, skip: int) -> Iterator[Request]:
        messages: list[dict[str, Any]] = []
        for turn in range(self.turns):
            urls = [draw.picture(self.size, self.look, rng) for _ in range(self.images)]
            messages.append(user_message(text(self.words, rng), urls))
            if turn >= skip:
                yield Request(tuple(messages), self.output_tokens)
            messages.append({"role": "assistant", "content": text(self.output_tokens, rng)})
