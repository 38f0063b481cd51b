"""Seconds of a language model's pieces from measured kernels."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from easerve.costs.pieces import Piece, Seconds
from easerve.costs.shapes.language import LanguageShape
from easerve.costs.tables.engine import Kernels, Phase, named, unnamed

_SEQUENCE = ("_attention", "_gdn_conv1d", "_gdn_scan", "_gdn_recurrence")  # depend on a sequence, not only on tokens
_SAMPLED = ("_logits_gemm",)
_EXCHANGED = ("_ar", "_ar_1", "_ar_2", "_dispatch", "_p2p")
_ELSEWHERE = (*_SEQUENCE, *_SAMPLED, *_EXCHANGED)


class LanguageTables:
    """One device's part of `shape` under tensor parallelism."""

    def __init__(self, kernels: Kernels, shape: LanguageShape, tp: int, precision: str) -> None:
        self._kernels = kernels
        self._shape, self._tp, self._precision = shape, tp, precision

    def seconds(self, piece: Piece) -> Seconds:
        """At whole sizes. Raises NotMeasured, or what it returns does, when the tables lack one of its kernels."""
        prefill, decode = self._operations
        if piece == "rows":
            chosen = json.dumps(unnamed(prefill, *_ELSEWHERE))
            return lambda tokens, _: self._ask(chosen, "prefill", 1, tokens)
        if piece == "exchange":
            chosen = json.dumps(named(prefill, *_EXCHANGED))
            return lambda tokens, _: self._ask(chosen, "prefill", 1, tokens)
        if piece == "decode_rows":
            chosen = json.dumps(unnamed(decode, *_ELSEWHERE))
            return lambda tokens, _: self._ask(chosen, "decode", tokens, 1)
        if piece == "head":
            chosen = json.dumps(named(decode, *_SAMPLED))
            return lambda sampled, _: self._ask(chosen, "decode", sampled, 1)
        if piece == "prefill":
            chosen = json.dumps(named(prefill, *_SEQUENCE))
            return lambda new, context: self._ask(chosen, "prefill", 1, new, context)
        chosen = json.dumps(named(decode, *_SEQUENCE))
        return lambda sequences, seen: self._ask(chosen, "decode", sequences, seen)

    @cached_property
    def _operations(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return self._kernels.language_model(self._shape, self._tp, self._precision)

    def _ask(self, operations: str, phase: Phase, batch: float, length: float, prefix: float = 0) -> float:
        return self._kernels.seconds(operations, phase, round(batch), round(length), round(prefix))
