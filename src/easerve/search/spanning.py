"""Costs of a worker that spans several devices: the language model tensor parallel, encode dealt out item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from easerve.costs.base import ChunkSize, ItemSize, StageCosts


class SpanningCosts:
    """A `StageCosts`. `one` is of a single device, `all_` of the `devices` together."""

    def __init__(self, one: StageCosts, all_: StageCosts, devices: int) -> None:
        self.kv_bytes_per_token = all_.kv_bytes_per_token
        self.embedding_bytes_per_token = all_.embedding_bytes_per_token
        self.kv_tokens = all_.kv_tokens
        self._one = one
        self._all = all_
        self._devices = devices

    def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
        """The batch is done when its last device is."""
        parts = [items[device :: self._devices] for device in range(min(self._devices, len(items)))]
        return max((self._one.encode(part, share, beside) for part in parts), default=0.0)

    def step(self, chunks: Sequence[ChunkSize], share: float = 1.0, beside: float = 0.0) -> float:
        return self._all.step(chunks, share, beside)


def spanning(make: Callable[[int], StageCosts], sizes: Iterable[int]) -> dict[int, StageCosts]:
    """By number of devices, from what makes costs for a tensor-parallel size; one device is always among them."""
    one = make(1)
    wider = {size: SpanningCosts(one, make(size), size) for size in sizes if size > 1}
    return {1: one, **wider}
