"""Stage times from the times of their pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from easerve.costs.base import ChunkSize, ItemSize
from easerve.costs.pieces import Piece
from easerve.costs.shapes.model import ModelShape
from easerve.costs.sharing import Contention
from easerve.costs.work import Part, stretch


class ComposedCosts:
    """A `StageCosts`. `sources` says where the seconds of each piece come from."""

    def __init__(self, shape: ModelShape, parts: Mapping[Piece, Part], kv_tokens: int, contention: Contention) -> None:
        self.kv_bytes_per_token = shape.language.kv_bytes_per_token
        self.embedding_bytes_per_token = shape.embedding_bytes_per_token
        self.kv_tokens = kv_tokens
        self.sources = {piece: part.source for piece, part in parts.items()}
        self._parts = parts
        self._encoder = shape.encoder
        self._contention = contention

    def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
        """Items of one batch are packed: matrices see all their positions at once, attention one span at a time."""
        positions = sum(item.patches for item in items)
        if not positions:
            return 0.0
        spans, length = self._spans(items)
        sizes: list[tuple[Piece, float, float]] = [
            ("positions", positions, 0),
            ("attention", spans, length),
            ("merging", max(1.0, positions / self._encoder.merge), 0),
        ]
        if self._encoder.windowed:
            sizes.append(("windows", max(1.0, positions / self._encoder.window), 0))
        if "joining" in self._parts:
            sizes.append(("joining", positions, 0))
        return self._total(sizes, share, beside)

    def step(self, chunks: Sequence[ChunkSize], share: float = 1.0, beside: float = 0.0) -> float:
        if not chunks:
            return 0.0
        sizes: list[tuple[Piece, float, float]] = [("head", len(chunks), 0)]
        decoding = seen = tokens = 0
        for chunk in chunks:
            tokens += chunk.new
            if chunk.new == 1:
                decoding += 1
                seen += chunk.context + 1
            else:
                sizes.append(("prefill", chunk.new, chunk.context))
        sizes.append(("decode_rows" if decoding == len(chunks) else "rows", tokens, 0))
        if "exchange" in self._parts:
            sizes.append(("exchange", tokens, 0))
        if decoding:
            sizes.append(("decode", decoding, seen / decoding))
        return self._total(sizes, share, beside)

    def _spans(self, items: Sequence[ItemSize]) -> tuple[float, float]:
        """How many spans attend within themselves, and their root mean square length: work goes with its square."""
        spans = squares = 0.0
        for item in (one for one in items if one.patches):
            frame = item.patches / item.frames
            length = min(frame, self._encoder.span or frame)
            spans += item.patches / length
            squares += item.patches * length
        return spans, sqrt(squares / spans)

    def _total(self, sizes: Sequence[tuple[Piece, float, float]], share: float, beside: float) -> float:
        parts = self._parts
        if share == 1 and beside == 0:
            return sum([parts[piece].seconds(one, other) for piece, one, other in sizes])
        left = self._contention.left(share, beside)
        return sum([_shared(parts[piece], one, other, *left) for piece, one, other in sizes])


def _shared(part: Part, one: float, other: float, arithmetic: float, bandwidth: float) -> float:
    left = part.rates.scaled(arithmetic, bandwidth)
    return part.seconds(one, other) * stretch(part.work(one, other), part.rates, left)
