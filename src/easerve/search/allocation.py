"""Who gets which devices: every way to give N equal devices to encode, prefill and decode that leaves none idle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["aggregated", "colocated", "e-pd", "e-p-d"]


@dataclass(frozen=True)
class Allocation:
    """Workers of each kind. A prefill or decode worker spans `tp` devices (tensor parallel), an encode worker
    `encode_tp`, over which it deals out the items of a batch.

    aggregated: `decoders` workers do everything. colocated: an encode worker shares the devices of each of `decoders`
    prefill/decode workers. e-pd: the same on devices of their own. e-p-d: three pools; encode workers may prefill too.
    """

    kind: Kind
    encoders: int
    prefillers: int
    decoders: int
    tp: int = 1
    encode_tp: int = 1

    @property
    def devices(self) -> int:
        own = 0 if self.kind == "colocated" else self.encoders * self.encode_tp
        return own + self.tp * (self.prefillers + self.decoders)

    def __str__(self) -> str:
        """2E + 1P + 2D, TP 2"""
        many = {"aggregated": "EPD", "colocated": "PD", "e-pd": "PD", "e-p-d": "D"}[self.kind]
        parts = [(self.encoders, "E"), (self.prefillers, "P"), (self.decoders, many)]
        joined = (" / " if self.kind == "colocated" else " + ").join(f"{n}{name}" for n, name in parts if n)
        if self.tp == 1:
            return joined
        return f"{joined}, TP {self.tp}" + (f", E over {self.encode_tp}" if self.encode_tp > 1 else "")


def allocations(devices: int, tensor_parallel: Sequence[int], fits: Callable[[int], bool]) -> Iterator[Allocation]:
    """All that use every one of `devices` devices.

    `fits` says whether the language model has room on so many devices. Prefill and decode workers have one
    tensor-parallel size, because keys and values move between them in one layout. Where the language model needs more
    than one device, an encode worker comes in two widths: alone on a device, or as wide as local prefill needs.
    """
    for tp in tensor_parallel:
        if tp > devices or not fits(tp):
            continue
        if devices % tp == 0:
            yield Allocation("aggregated", 0, 0, devices // tp, tp)
            yield Allocation("colocated", devices // tp, 0, devices // tp, tp, encode_tp=tp)
        for groups in range(1, devices // tp + 1):
            left = devices - groups * tp
            if left:
                yield Allocation("e-pd", left, 0, groups, tp)
                yield from _apart(left, groups, tp, fits)


def _apart(left: int, groups: int, tp: int, fits: Callable[[int], bool]) -> Iterator[Allocation]:
    for prefillers in range(1, groups):
        yield Allocation("e-p-d", left, prefillers, groups - prefillers, tp)
        if not fits(1) and left % tp == 0:
            yield Allocation("e-p-d", left // tp, prefillers, groups - prefillers, tp, encode_tp=tp)
