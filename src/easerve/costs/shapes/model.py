"""A multimodal model as sizes."""

from __future__ import annotations

from dataclasses import dataclass

from easerve.costs.shapes.encoder import EncoderShape
from easerve.costs.shapes.language import ACTIVATION, LanguageShape


@dataclass(frozen=True)
class ModelShape:
    """`levels`: vectors of the language model's width that an embedding has per token (deepstack: more than 1)."""

    name: str
    language: LanguageShape
    encoder: EncoderShape
    levels: int = 1

    @property
    def parameters(self) -> int:
        return self.language.parameters + self.encoder.parameters

    def weight_bytes(self, bytes_per_weight: float) -> float:
        """The encoder stays in two bytes, as engines keep it whatever the language model's precision."""
        return self.language.weight_bytes(bytes_per_weight) + 2 * self.encoder.parameters

    @property
    def embedding_bytes_per_token(self) -> int:
        return ACTIVATION * self.levels * self.language.width
