"""Device seconds that the mean request costs at each stage, from a cost model. Derived here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache

from easerve.costs.base import ChunkSize, StageCosts
from easerve.engine.torch.options import EngineOptions
from easerve.policy.partition import Dynamic, EncodeProfile
from easerve.search.demand import Shape
from easerve.simulate.sharing import CHOICES, WHOLE


@dataclass(frozen=True, eq=False)
class Times:
    """Of one worker."""

    costs: StageCosts
    shape: Shape
    bounds: EngineOptions = field(default_factory=EngineOptions)  # of an engine step

    @cache  # noqa: B019 - lives as long as a search
    def batch(self, items: int, share: float = 1.0, beside: float = 0.0) -> float:
        """Seconds for a batch of mean items."""
        return self.costs.encode([self.shape.item] * items, share, beside) if items else 0.0

    def encode(self, batch: int, share: float = 1.0, beside: float = 0.0) -> float:
        """Seconds a request, in batches of `batch` items."""
        return self.shape.items * self.batch(batch, share, beside) / batch

    @cache  # noqa: B019
    def prefill(self, share: float = 1.0, beside: float = 0.0) -> float:
        """Seconds a request: a long prompt takes several steps, short ones share a step."""
        prompt = self.shape.prompt_tokens
        if together := self.bounds.max_batched_tokens // prompt:
            return self.costs.step([ChunkSize(prompt, 0)] * together, share, beside) / together
        return self.first_token(share, beside)

    @cache  # noqa: B019
    def first_token(self, share: float = 1.0, beside: float = 0.0) -> float:
        """Seconds from a lone prompt to its first token."""
        prompt = self.shape.prompt_tokens
        most = self.bounds.max_batched_tokens
        chunks = [ChunkSize(min(most, prompt - start), start) for start in range(0, prompt, most)]
        return sum(self.costs.step([chunk], share, beside) for chunk in chunks)

    @cache  # noqa: B019
    def step(self, sequences: int, beside: float = 0.0) -> float:
        """Seconds for a decode step, each sequence halfway through its answer."""
        context = self.shape.prompt_tokens + self.shape.output_tokens // 2
        return self.costs.step([ChunkSize(1, context)] * sequences, 1.0, beside)

    def decode(self, tpot: float, beside: float = 0.0) -> float:
        """Seconds a request, its first token excluded, in the largest batch within `tpot` (and memory)."""
        sequences = self.largest_batch(tpot, beside)
        return (self.shape.output_tokens - 1) * self.step(sequences, beside) / sequences

    def answer(self, tpot: float | None) -> float:
        """Seconds from a prompt to the end of its answer on a busy worker, waiting aside."""
        sequences = self.largest_batch(math.inf if tpot is None else tpot)
        return self.first_token() + self.shape.output_tokens * self.step(sequences)

    def largest_batch(self, tpot: float, beside: float = 0.0) -> int:
        """b*, at least 1: a step of as many sequences takes `tpot` seconds at most, and their KV fits."""
        length = self.shape.prompt_tokens + self.shape.output_tokens
        low, high = 1, max(1, min(self.bounds.max_sequences, self.costs.kv_tokens // length))
        while low < high:
            middle = (low + high + 1) // 2
            if self.step(middle, beside) <= tpot:
                low = middle
            else:
                high = middle - 1
        return low

    @cache  # noqa: B019
    def safe_share(self, batch: int) -> float:
        """The part of a device that dynamic partitioning gives such batches; 1 where none is safe."""
        beside = tuple(self.batch(batch, units / WHOLE, 1 - units / WHOLE) for units in CHOICES)
        profile = EncodeProfile((batch,), (*CHOICES, WHOLE), ((*beside, self.batch(batch)),))
        return (Dynamic(profile).during(batch) or WHOLE) / WHOLE
