"""The timed engines of a live worker: everything around them is real, computing is sleeping.

So a server, its failures and its clients can be tried at the scale of many devices on a machine that has none.
Embeddings, keys and values are as many tokens long as the real ones, and one number wide. Answers repeat the tokens of
the prompt and are as long as they may be. Two stages of one worker do not slow each other down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from msgspec.structs import replace

from easerve.costs.base import ChunkSize, ItemSize, StageCosts
from easerve.engine.base import EngineStats, Event, KVState, NewSequence, Prefilled
from easerve.engine.timed.batching import ContinuousBatching
from easerve.engine.timed.sequence import TimedSequence
from easerve.engine.torch.options import EngineOptions
from easerve.models.base import Embedding
from easerve.request import TokenOutput

Sleep = Callable[[float], None]


class TimedEncoder:
    """Implements `Encoder`. `size` tells what the encoder would see of a picture of (height, width)."""

    def __init__(self, costs: StageCosts, size: Callable[[int, int], ItemSize], sleep: Sleep = time.sleep) -> None:
        self._costs = costs
        self._size = size
        self._sleep = sleep

    def encode(self, pictures: Sequence[np.ndarray]) -> list[Embedding]:
        sizes = [self._size(*picture.shape[:2]) for picture in pictures]
        self._sleep(self._costs.encode(sizes))
        return [Embedding(torch.zeros(one.tokens, 1)) for one in sizes]


class TimedLanguageModel:
    """Implements `LanguageModel`. `placeholder` stands for pictures in prompts and is never generated."""

    def __init__(
        self,
        costs: StageCosts,
        options: EngineOptions,
        placeholder: int,
        sleep: Sleep = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._batching = ContinuousBatching.sized(options, costs)
        self._costs = costs
        self._placeholder = placeholder
        self._sleep = sleep
        self._clock = clock
        self._words: dict[str, list[int]] = {}  # of each sequence's prompt
        self.max_tokens_per_sequence = self._batching.max_tokens_per_sequence

    def add(self, sequence: NewSequence) -> None:
        self._batching.add(TimedSequence.of(sequence, self._clock()))
        self._words[sequence.id] = [token for token in sequence.prompt if token != self._placeholder]

    def abort(self, sequence_id: str) -> None:
        self._batching.abort(sequence_id)
        self._words.pop(sequence_id, None)

    def has_work(self) -> bool:
        return self._batching.has_work()

    def step(self) -> list[Event]:
        chunks = self._batching.begin(self._clock())
        self._sleep(self._costs.step([ChunkSize(chunk.count, chunk.start) for chunk in chunks]))
        end = self._batching.end(self._clock())
        events: list[Event] = [self._worded(output) for output in end.outputs]
        for sequence in end.prefilled:
            del self._words[sequence.id]
            kv = KVState(torch.zeros(1, 2, sequence.computed, 1, 1), sequence.computed)
            events.append(Prefilled(sequence.id, kv))
        return events

    def stats(self) -> EngineStats:
        return self._batching.stats()

    def _worded(self, output: TokenOutput) -> TokenOutput:
        """The n-th token of the answer is the prompt's n-th, over and over."""
        words = self._words[output.sequence_id] if output.finish_reason is None else self._words.pop(output.sequence_id)
        return replace(output, token_id=words[output.token_id % len(words)] if words else 0)
