"""Where the seconds of each piece come from: kernels measured on the device; else those of the device that stands in
for it, stretched by the roofline of both; else the roofline alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Literal

from easerve.costs.hardware import Hardware, find_hardware
from easerve.costs.pieces import BETWEEN, LANGUAGE, Piece, Seconds, encoder_ways, rates, wanted, works
from easerve.costs.roofline import Roofline
from easerve.costs.shapes.model import ModelShape
from easerve.costs.sizes import tabulated
from easerve.costs.tables.encoder import EncoderTables
from easerve.costs.tables.engine import Kernels, NotMeasured
from easerve.costs.tables.language import LanguageTables
from easerve.costs.work import Part, stretch

Method = Literal["tables", "roofline"]


class Sources:
    """For one device of a tensor-parallel group."""

    def __init__(self, shape: ModelShape, hardware: Hardware, tp: int, precision: str) -> None:
        self._shape, self._hardware, self._tp, self._precision = shape, hardware, tp, precision
        self._works = works(shape, precision, tp)
        self._tables = cache(self._open)

    def parts(self, method: Method) -> Mapping[Piece, Part]:
        """`roofline`: nothing else, whatever was measured."""
        found = self._measured if method == "tables" else self._estimated
        return {piece: found(piece) for piece in wanted(self._shape, self._tp)}

    def _measured(self, piece: Piece) -> Part:
        for device in self._devices(piece):
            try:
                kernels, tables = self._tables(device.key, piece in LANGUAGE)
                seconds = tabulated(piece, self._carried(piece, tables.seconds(piece), device))
            except NotMeasured:
                continue
            carried = "" if device is self._hardware else f", stretched to {self._hardware.name} by roofline"
            return self._part(piece, seconds, kernels.source + carried)
        return self._estimated(piece)

    def _estimated(self, piece: Piece) -> Part:
        roofline = Roofline(self._shape, self._hardware, self._tp, self._precision)
        seconds = tabulated(piece, roofline.seconds(piece, self._works[piece]))
        return self._part(piece, seconds, roofline.source(piece))

    def _part(self, piece: Piece, seconds: Seconds, source: str) -> Part:
        return Part(self._works[piece], seconds, rates(piece, self._hardware, self._precision), source)

    def _devices(self, piece: Piece) -> Iterator[Hardware]:
        """Nothing stands in for how a host connects its devices."""
        if self._hardware.tables:
            yield self._hardware
        if self._hardware.stand_in and piece not in BETWEEN:
            yield find_hardware(self._hardware.stand_in)

    def _open(self, device: str, language: bool) -> tuple[Kernels, LanguageTables | EncoderTables]:
        kernels = _kernels(find_hardware(device).tables or "")
        if language:
            return kernels, LanguageTables(kernels, self._shape.language, self._tp, self._precision)
        return kernels, EncoderTables(kernels, self._shape.encoder, encoder_ways(self._shape, self._tp))

    def _carried(self, piece: Piece, seconds: Seconds, device: Hardware) -> Seconds:
        if device is self._hardware:
            return seconds
        work = self._works[piece]
        known, wanted = (rates(piece, one, self._precision) for one in (device, self._hardware))
        return lambda one, other: seconds(one, other) * stretch(work(one, other), known, wanted)


@cache
def _kernels(system: str) -> Kernels:
    return Kernels(system)
