"""What differs between model families, behind two halves.

The *front half* (`Family`) needs no torch: it knows how many positions a picture fills, which token stands for
one, and which settings belong in a content key. The *worker half* (`EncoderPart`, `LanguagePart`) holds modules of
the transformers library: an encode worker builds only the first, a prefill/decode worker only the second.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import numpy as np
    import torch

PAGED_ATTENTION = "easerve_paged"  # the attention implementation language parts are built with


@dataclass(frozen=True)
class Embedding:
    """What the encoder makes of one item.

    `values` is (tokens, width); `deepstack`, where the family has it, (levels, tokens, width); `grid` whatever
    the family's `positions` needs to know of the item; `key` its content key, empty where nobody has told.
    """

    values: torch.Tensor
    grid: tuple[int, ...] = ()
    deepstack: torch.Tensor | None = None
    key: str = ""


@dataclass(frozen=True)
class MediaSpan:
    """Where an item sits in a prompt: `tokens` positions from `offset` on."""

    offset: int
    tokens: int
    grid: tuple[int, ...] = ()


@dataclass(frozen=True)
class KVShape:
    """What the language model keeps per token: sizes of the KV pool."""

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_dim * self.dtype.itemsize


class EncoderPart(Protocol):
    """The encoder with its weights, on one device."""

    width: int  # of an embedding

    def encode(self, pictures: Sequence[np.ndarray]) -> list[Embedding]:
        """Embeddings of `pictures` (each (height, width, 3) uint8 RGB, sizes may differ), in order, on the device."""
        ...


class LanguagePart(Protocol):
    """The language model with its weights, on one device, built with `PAGED_ATTENTION`."""

    kv: KVShape
    device: torch.device
    dtype: torch.dtype
    vocab_size: int
    width: int
    max_positions: int
    eos_token_ids: tuple[int, ...]

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """(n,) int64 -> (n, width)."""
        ...

    def positions(self, length: int, media: Sequence[MediaSpan]) -> tuple[torch.Tensor, int]:
        """Positions of a prompt of `length` tokens: (rows, length) int64 on the CPU, rows 1 or 3, and the position
        of the token that follows it (generated tokens count on from there, the same in each row)."""
        ...

    def forward(
        self,
        embeds: torch.Tensor,
        positions: torch.Tensor,
        *,
        deepstack: tuple[torch.Tensor, torch.Tensor] | None,
        paged: Any,
    ) -> torch.Tensor:
        """Hidden states (n, width) of a packed batch: `embeds` (n, width), `positions` (rows, n).

        `deepstack`: (mask (n,) bool of the media positions, values (levels, mask.sum(), width)), or None.
        `paged` is handed to the registered attention function untouched, as its keyword argument `paged`.
        """
        ...

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """(k, width) -> (k, vocab_size), float32."""
        ...


class Family(ABC):
    """One model family. Built from a checkpoint folder's own files; cheap, and without torch.

    `config` is config.json, `processor` preprocessor_config.json, both as dictionaries.
    """

    architectures: ClassVar[tuple[str, ...]]

    def __init__(self, folder: Path, config: Mapping[str, Any], processor: Mapping[str, Any]) -> None:
        self.folder = folder
        self.config = config
        self.processor = processor

    @property
    @abstractmethod
    def image_token_id(self) -> int:
        """The placeholder that the chat template puts once per picture and that is repeated `image_tokens` times."""

    @property
    @abstractmethod
    def context_length(self) -> int:
        """Positions the language model was made for."""

    @abstractmethod
    def image_tokens(self, height: int, width: int) -> int:
        """Positions that a picture of this decoded size fills. Raises BadRequest for a shape the family refuses."""

    @abstractmethod
    def fingerprint(self) -> bytes:
        """Processor settings as bytes: part of every content key."""

    @abstractmethod
    def load_encoder(self, device: str, dtype: torch.dtype | None) -> EncoderPart:
        """The encoder alone; no other weight is read. `dtype` None: the checkpoint's own."""

    @abstractmethod
    def load_language_model(self, device: str, dtype: torch.dtype | None) -> LanguagePart:
        """The language model alone; no other weight is read. `dtype` None: the checkpoint's own."""
