"""The two engines of a worker, each running on its part of the device that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from easerve.engine.base import Encoder, EngineStats, Event, LanguageModel, NewSequence
from easerve.engine.partition.sharing import Sharing

if TYPE_CHECKING:
    import numpy as np

    from easerve.models.base import Embedding


class SharingEncoder:
    """Implements `Encoder`. `item_pixels`: what counts as one item, the size of the profile's pictures."""

    def __init__(self, encoder: Encoder, sharing: Sharing, item_pixels: int) -> None:
        self._encoder = encoder
        self._sharing = sharing
        self._item_pixels = item_pixels

    def encode(self, pictures: Sequence[np.ndarray]) -> list[Embedding]:
        pixels = sum(picture.shape[0] * picture.shape[1] for picture in pictures)
        items = max(1, round(pixels / self._item_pixels))
        return self._sharing.encode(items, lambda: self._encoder.encode(pictures))


class SharingLanguageModel:
    """Implements `LanguageModel`; a step is a prefill chunk, after which it may move."""

    def __init__(self, language_model: LanguageModel, sharing: Sharing) -> None:
        self._language_model = language_model
        self._sharing = sharing
        self.max_tokens_per_sequence = language_model.max_tokens_per_sequence

    def add(self, sequence: NewSequence) -> None:
        for _, embedding in sequence.media:
            parts = (embedding.values, embedding.deepstack)
            self._sharing.partition.adopt(part for part in parts if part is not None)
        self._language_model.add(sequence)

    def abort(self, sequence_id: str) -> None:
        self._language_model.abort(sequence_id)

    def has_work(self) -> bool:
        return self._language_model.has_work()

    def step(self) -> list[Event]:
        return self._sharing.prefill(self._language_model.step)

    def stats(self) -> EngineStats:
        return self._language_model.stats()
