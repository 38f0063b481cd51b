"""A vision or audio encoder as sizes, and the work of its pieces.

Positions go in: patches of a picture or a video, or frames of audio; every `merge` of them become one embedding.
Pieces: `rows` is everything done to each position alone, `attention` the layers in which positions of a span see each
other, `windows` those that see only their window, `merging` the projection to the language model's width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from easerve.costs.shapes.language import ACTIVATION
from easerve.costs.work import Work


@dataclass(frozen=True)
class EncoderShape:
    """`span`: the positions that attend to each other at most (a tile of LLaVA, 30 s of audio); None: a whole frame.
    `windowed` layers see only windows of `window` positions. `inputs` numbers make a position; `projector` are the
    (in, out) of the matrices after the last layer. `small` counts parameters in no matrix.
    """

    depth: int
    width: int
    heads: int
    mlp: int
    gated: bool
    inputs: int
    merge: int
    projector: tuple[tuple[int, int], ...]
    small: int
    idle_depth: int = 0  # layers whose weights are there but that are never computed
    span: int | None = None
    windowed: int = 0
    window: int = 0

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    @property
    def parameters(self) -> int:
        layers = (self.depth + self.idle_depth) * self._layer
        return layers + self.inputs * self.width + sum(a * b for a, b in self.projector) + self.small

    def rows(self, positions: float) -> Work:
        matrices = self.depth * self._layer + self.inputs * self.width
        activations = self.depth * (8 * self.width + 3 * self.mlp) + self.inputs
        return Work(2 * positions * matrices, ACTIVATION * (matrices + positions * activations))

    def attention(self, spans: float, length: float) -> Work:
        return self._attention(self.depth - self.windowed, spans, length)

    def windows(self, windows: float) -> Work:
        return self._attention(self.windowed, windows, self.window)

    def merging(self, rows: float) -> Work:
        matrices = sum(a * b for a, b in self.projector)
        activations = sum(a + b for a, b in self.projector)
        return Work(2 * rows * matrices, ACTIVATION * (matrices + rows * activations))

    @cached_property
    def _layer(self) -> int:
        return 4 * self.width**2 + (3 if self.gated else 2) * self.width * self.mlp

    def _attention(self, layers: int, spans: float, length: float) -> Work:
        """Queries, keys, values and outputs pass once, whatever the length: scores stay on chip."""
        return Work(4 * layers * spans * length**2 * self.width, 4 * ACTIVATION * layers * spans * length * self.width)
