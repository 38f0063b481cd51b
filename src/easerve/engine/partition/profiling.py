"""The share profile of a worker's two engines."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np

from easerve.engine.base import Encoder, LanguageModel, NewSequence, SequenceFailed
from easerve.engine.partition.base import Partition
from easerve.engine.partition.measure import Bench, ShareTimes
from easerve.request import SamplingParams

PICTURE_SIDE = 224  # pixels; larger pictures count as several of these
PREFILL_TOKENS = 512  # of a prompt that is prefilled beside encode
START_SECONDS = 10.0  # that measuring may take at a server's start


class Prefills:
    """Prompts of text, one after the other, through a language model that has nothing else to do."""

    def __init__(self, language_model: LanguageModel, tokens: int = PREFILL_TOKENS) -> None:
        self._language_model = language_model
        self._tokens = min(tokens, language_model.max_tokens_per_sequence - 1)
        self._numbers = itertools.count()

    def __call__(self) -> int:
        """One step; the tokens it computed. Raises what made a sequence fail: that is no time of a prefill."""
        if not self._language_model.has_work():
            number = next(self._numbers)
            prompt = [1 + (number >> bit) % 2 for bit in range(self._tokens)]  # no prefix cache has seen its like
            self._language_model.add(NewSequence(f"profile-{number}", prompt, SamplingParams(max_tokens=1)))
        before = self._language_model.stats().prompt_tokens
        for event in self._language_model.step():
            if isinstance(event, SequenceFailed):
                raise event.error
        return self._language_model.stats().prompt_tokens - before


def measure_shares(
    partition: Partition,
    encoder: Encoder,
    language_model: LanguageModel,
    *,
    largest_batch: int,
    side: int = PICTURE_SIDE,
    seconds: float = START_SECONDS,
    report: Callable[[str], None] = lambda text: None,
) -> ShareTimes:
    """Encode of pictures of `side` pixels by batch and share, in about so many seconds; both engines are idle."""
    picture = np.random.default_rng(0).integers(0, 256, (side, side, 3), dtype=np.uint8)
    prefills = Prefills(language_model)
    bench = Bench(partition, lambda items: _encode(encoder, [picture] * items), prefills)
    batches = bench.affordable(largest_batch, seconds)
    if batches[-1] < largest_batch:
        report(f"batches of more than {batches[-1]} are left out: they would take too long to measure")
    times = bench.share_times(batches, report)
    while language_model.has_work():
        prefills()
    return times


def _encode(encoder: Encoder, pictures: list[np.ndarray]) -> None:
    encoder.encode(pictures)
