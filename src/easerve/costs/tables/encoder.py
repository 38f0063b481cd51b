"""Seconds of an encoder's pieces from measured kernels. Its operations are listed here: the tables' own encoders know
neither windows nor gated layers."""

from __future__ import annotations

from typing import Any

from easerve.costs.pieces import Piece, Seconds
from easerve.costs.shapes.encoder import EncoderShape
from easerve.costs.tables.engine import Kernels

_STREAMED = 0.8  # of a device's bandwidth that an element-wise kernel reaches; aiconfigurator-core's own figure


class EncoderTables:
    """One device's part of `shape`, its heads and MLP split `ways`."""

    def __init__(self, kernels: Kernels, shape: EncoderShape, ways: int) -> None:
        self._kernels = kernels
        self._shape, self._ways = shape, ways

    def seconds(self, piece: Piece) -> Seconds:
        """At whole sizes. What it returns raises NotMeasured when the tables lack one of its kernels."""
        shape = self._shape
        by_number = {"positions": self._layers, "merging": self._projector, "joining": self._reduced}
        if piece in by_number:
            chosen = by_number[piece]()
            return lambda number, _: self._ask(chosen, 1, number)
        if piece == "windows":
            chosen = self._attention(shape.windowed)
            return lambda windows, _: self._ask(chosen, windows, shape.window)
        chosen = self._attention(shape.depth - shape.windowed)
        return lambda spans, length: self._ask(chosen, spans, length)

    def _ask(self, operations: str, batch: float, length: float) -> float:
        return self._kernels.seconds(operations, "prefill", round(batch), round(length))

    def _layers(self) -> str:
        from aiconfigurator_core.sdk import operations as ops

        shape, ways = self._shape, self._ways
        width, mlp, depth = shape.width, shape.mlp // ways, shape.depth
        up = 2 * mlp if shape.gated else mlp
        return _json(
            _matrix("patch", 1, width, shape.inputs),
            ops.ElementWise("norms", 2 * depth, 2 * width, 2 * width, _STREAMED),
            _matrix("qkv", depth, 3 * width // ways, width),
            ops.ElementWise("rope", depth, 2 * width // ways, 2 * width // ways, _STREAMED),
            _matrix("out", depth, width, width // ways),
            _matrix("up", depth, up, width),
            ops.ElementWise("activation", depth, up, mlp, _STREAMED),
            _matrix("down", depth, width, mlp),
        )

    def _projector(self) -> str:
        from aiconfigurator_core.sdk import operations as ops

        listed: list[Any] = []
        for inner, outer in self._shape.projector:
            listed += [_matrix("matrix", 1, outer, inner), ops.ElementWise("activation", 1, outer, outer, _STREAMED)]
        return _json(*listed)

    def _reduced(self) -> str:
        from aiconfigurator_core.sdk import operations as ops

        return _json(ops.CustomAllReduce("reduce", 2 * self._shape.depth, self._shape.width, self._ways))

    def _attention(self, layers: int) -> str:
        from aiconfigurator_core.sdk import common
        from aiconfigurator_core.sdk import operations as ops

        heads, mode = self._shape.heads // self._ways, common.FMHAQuantMode.bfloat16
        return _json(
            ops.EncoderAttention(
                "attention", layers, heads, self._shape.head_dim, fmha_quant_mode=mode, partial_rotary_factor=0.0
            )
        )


def _matrix(name: str, count: int, outputs: int, inputs: int) -> Any:
    from aiconfigurator_core.sdk import common
    from aiconfigurator_core.sdk import operations as ops

    return ops.GEMM(name, count, outputs, inputs, common.GEMMQuantMode.bfloat16)


def _json(*operations: Any) -> str:
    from aiconfigurator_core.sdk.engine import build_ops_json

    return build_ops_json(list(operations))
