"""Shares of a CUDA device: a pair of streams for each, confined to complementary SMs, made once.

Switching is picking another stream. A piece of work is waited for before its call returns, so no two streams of a stage
ever have work at once, a decision is taken when a prefill chunk really starts and not while the one before still runs,
and what encode has made is complete before anybody hears of it: no stream has to wait for another. The wait costs some
microseconds of launch time per piece, and pieces take milliseconds. Not yet run on a GPU.

SMs are all that is divided: memory bandwidth, L2 and copy engines stay common.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import torch

from easerve.engine.partition.base import T, thinned
from easerve.engine.partition.green import GreenDevice, StreamPair
from easerve.errors import StartupError

logger = logging.getLogger(__name__)


class _Streams(NamedTuple):
    encode: torch.cuda.Stream
    prefill: torch.cuda.Stream


class SmPartition:
    """Implements `Partition` over a CUDA device. Without `green` it is never split: two plain streams."""

    unit: Literal["SM"] = "SM"

    def __init__(self, device: torch.device, green: GreenDevice | None) -> None:
        cuda: Any = torch.cuda  # streams are untyped there
        self._device = device
        self._green = green
        self._streams: dict[int | None, _Streams] = {None: _Streams(cuda.Stream(device), cuda.Stream(device))}
        if green is not None:
            for pair in _pairs(green):
                streams = [cuda.ExternalStream(handle, device) for handle in (pair.group, pair.remainder)]
                self._streams[pair.group_sms] = _Streams(*streams)
        self.whole = torch.cuda.get_device_properties(device).multi_processor_count
        self.choices = tuple(sorted(held for held in self._streams if held is not None))
        torch.cuda.synchronize(device)  # weights were laid down on another stream

    def encode(self, held: int | None, work: Callable[[], T]) -> T:
        return _on(self._streams[held].encode, work)

    def prefill(self, held: int | None, work: Callable[[], T]) -> T:
        return _on(self._streams[held].prefill, work)

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """A sequence may be dropped in the middle of a step that failed, while kernels still read its embeddings."""
        for tensor in tensors:
            for streams in self._streams.values():
                tensor.record_stream(streams.prefill)

    def close(self) -> None:
        """Also gives back what torch keeps for streams that are no more: freed blocks, and cuBLAS's workspaces."""
        if self._green is None:
            return
        torch.cuda.synchronize(self._device)
        torch._C._cuda_clearCublasWorkspaces()  # type: ignore[attr-defined,unused-ignore]
        torch.cuda.empty_cache()
        self._streams.clear()
        self._green.close()


def _pairs(green: GreenDevice) -> list[StreamPair]:
    """All that the driver grants. Raises StartupError if it refuses every one."""
    granted, refused = [], None
    for sms in thinned(green.group_sizes):
        try:
            granted.append(green.split(sms))
        except StartupError as error:
            refused = error
            logger.warning("there is no share of %d SMs: %s", sms, error.message)
    if refused is not None and not granted:
        raise refused
    return granted


def _on(stream: torch.cuda.Stream, work: Callable[[], T]) -> T:
    with torch.cuda.stream(stream):
        try:
            return work()
        finally:
            stream.synchronize()
