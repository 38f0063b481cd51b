"""What a serving engine adds to its kernels. The few constants here are fitted, the same for every scenario.

Cost models know kernels timed alone on a cool device. A server also launches, schedules and samples, and its host turns
files into patches before an encoder sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from easerve.costs.base import ChunkSize, ItemSize, StageCosts


@dataclass(frozen=True)
class Host:
    """`slowdown`: how many times as long as its kernels a step or an encode batch takes in a server. `step`: seconds
    of the host before each step. `patch`: seconds of preprocessing per patch of an item, which encode waits for."""

    slowdown: float
    step: float
    patch: float


# slowdown: by the P99 TTFT of dynamo at 2 and of easerve at 5 pictures a second (one is too fast then, one too slow);
# step: by the E2E of both servers on one GB200; patch: by the TTFT of a video of 64 frames in vllm
FITTED = Host(slowdown=1.25, step=2e-3, patch=33e-6)


class HostedCosts:
    """A `StageCosts`. Preprocessing does not slow down with a smaller share of the device."""

    def __init__(self, kernels: StageCosts, host: Host) -> None:
        self.kv_bytes_per_token = kernels.kv_bytes_per_token
        self.embedding_bytes_per_token = kernels.embedding_bytes_per_token
        self.kv_tokens = kernels.kv_tokens
        self._kernels = kernels
        self._host = host

    def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
        preparing = self._host.patch * sum(item.patches for item in items)
        return preparing + self._host.slowdown * self._kernels.encode(items, share, beside)

    def step(self, chunks: Sequence[ChunkSize], share: float = 1.0, beside: float = 0.0) -> float:
        return self._host.step + self._host.slowdown * self._kernels.step(chunks, share, beside)
