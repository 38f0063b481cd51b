"""Seconds where no kernel was measured: the roofline, at a stated part of the device's peak.

The parts are derived here from the measured tables, as what kernels of a 7 B to 34 B model at usual sizes reach on
A100, H200 and L40S (docs/costs.md shows the comparison).
"""

from __future__ import annotations

from easerve.costs.hardware import Hardware
from easerve.costs.links import Link, make_link
from easerve.costs.pieces import BETWEEN, Piece, Seconds, WorkOf, rates
from easerve.costs.shapes.language import ACTIVATION
from easerve.costs.shapes.model import ModelShape

MATRICES = 0.65  # of peak arithmetic
ATTENTION = 0.4
BANDWIDTH = 0.75
LINK = 0.5  # of a link's bandwidth, in a ring of devices
LAUNCH = 3e-6  # seconds that a kernel takes however little it does
_ATTENTIONS = ("prefill", "decode", "attention", "windows")
_KERNELS = {"rows": 8, "decode_rows": 8, "positions": 9}  # in a layer; 1 of others


class Roofline:
    """Of one device of a tensor-parallel group."""

    def __init__(self, shape: ModelShape, hardware: Hardware, tp: int, precision: str) -> None:
        self._shape, self._hardware, self._tp, self._precision = shape, hardware, tp, precision

    def source(self, piece: Piece) -> str:
        if piece in BETWEEN:
            return f"ring of {self._tp} at {LINK:.0%} of the link's bandwidth; link: {self._link.source}"
        arithmetic = ATTENTION if piece in _ATTENTIONS else MATRICES
        return f"roofline at {arithmetic:.0%} of peak arithmetic, {BANDWIDTH:.0%} of bandwidth"

    def seconds(self, piece: Piece, work: WorkOf) -> Seconds:
        if piece in BETWEEN:
            return self._between(piece)
        arithmetic = ATTENTION if piece in _ATTENTIONS else MATRICES
        reached = rates(piece, self._hardware, self._precision).scaled(arithmetic, BANDWIDTH)
        least = LAUNCH * self._kernels(piece)
        return lambda one, other: least + reached.seconds(work(one, other))

    def _kernels(self, piece: Piece) -> int:
        encoder, language = self._shape.encoder, self._shape.language
        if piece in ("head", "merging"):
            return 1
        layers = {
            "attention": encoder.depth - encoder.windowed,
            "windows": encoder.windowed,
            "positions": encoder.depth,
        }
        return _KERNELS.get(piece, 1) * layers.get(piece, language.layers)

    def _between(self, piece: Piece) -> Seconds:
        """Two all-reduces in each layer."""
        encoder, language = self._shape.encoder, self._shape.language
        layers, width = (encoder.depth, encoder.width) if piece == "joining" else (language.layers, language.width)
        link, passes = self._link, 2 * (self._tp - 1) / self._tp / LINK
        return lambda rows, _: 2 * layers * link.seconds(round(passes * ACTIVATION * rows * width))

    @property
    def _link(self) -> Link:
        return make_link("nvlink" if "nvlink" in self._hardware.links else "pcie", self._hardware)
