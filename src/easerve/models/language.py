"""The language half of a model: transformers' decoder with paged attention, its embedding table and its head.

Positions are always given, never kept: the modules hold weights and nothing of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from easerve.errors import UnsupportedModel
from easerve.models.base import PAGED_ATTENTION, KVShape, MediaSpan
from easerve.models.build import fill, own_dtype, read_config, skeleton
from easerve.models.checkpoint import eos_token_ids, read_json
from easerve.models.weights import Weights

_HEAD = "lm_head.weight"
_STATEFUL_ROPE = ("dynamic", "longrope")  # their frequencies follow the longest sequence seen so far

Positions = Callable[[int, Sequence[MediaSpan]], tuple[torch.Tensor, int]]


class Decoder:
    """transformers' text model over one packed row. Run it under torch.inference_mode()."""

    def __init__(self, model: Any, head: torch.Tensor, positions: Positions, eos: tuple[int, ...]) -> None:
        config = model.config
        self.model = model
        self.head = head
        self.device = head.device
        self.dtype = head.dtype
        self.vocab_size: int = head.shape[0]
        self.width: int = config.hidden_size
        self.max_positions: int = config.max_position_embeddings
        self.eos_token_ids = eos
        self.kv = KVShape(
            layers=config.num_hidden_layers,
            kv_heads=getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            dtype=head.dtype,
        )
        self._positions = positions

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.model.embed_tokens(token_ids)
        return rows

    def positions(self, length: int, media: Sequence[MediaSpan]) -> tuple[torch.Tensor, int]:
        return self._positions(length, media)

    def forward(
        self,
        embeds: torch.Tensor,
        positions: torch.Tensor,
        *,
        deepstack: tuple[torch.Tensor, torch.Tensor] | None,
        paged: Any,
    ) -> torch.Tensor:
        output = self.model(
            inputs_embeds=embeds[None],
            position_ids=positions if len(positions) == 1 else positions[:, None],
            use_cache=False,
            paged=paged,
            **_deepstack_arguments(deepstack),
        )
        hidden: torch.Tensor = output.last_hidden_state[0]
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(hidden, self.head).float()


def _deepstack_arguments(deepstack: tuple[torch.Tensor, torch.Tensor] | None) -> dict[str, Any]:
    if deepstack is None:
        return {}
    mask, levels = deepstack
    return {"visual_pos_masks": mask[None], "deepstack_visual_embeds": list(levels)}


def plain_positions(length: int, media: Sequence[MediaSpan]) -> tuple[torch.Tensor, int]:
    """One row, counting: pictures take the positions of the tokens they fill."""
    return torch.arange(length)[None], length


def load_decoder(folder: Path, positions: Positions, device: str, dtype: torch.dtype | None) -> Decoder:
    """Build the text model of `folder` alone and read its tensors, with the head or the table it is tied to."""
    config = read_config(folder)
    text = config.get_text_config()
    _refuse_sliding_window(folder, text)
    _refuse_stateful_rope(folder, text)
    weights = Weights(folder)
    place = torch.device(device)
    chosen = dtype or own_dtype(config, weights)
    bare = skeleton(text, attn_implementation=PAGED_ATTENTION)
    model: Any = fill(bare, weights, "language_model.", place, chosen)
    table = model.embed_tokens.weight
    tied = config.tie_word_embeddings or getattr(text, "tie_word_embeddings", False)
    shared = tied and _HEAD not in weights
    head = table if shared else weights.read({_HEAD: table.shape}, place, chosen)[_HEAD]
    return Decoder(model, head, positions, eos_token_ids(folder, read_json(folder / "config.json")))


def _refuse_sliding_window(folder: Path, text: Any) -> None:
    window = getattr(text, "sliding_window", None)
    kinds = getattr(text, "layer_types", None) or ["sliding_attention"]  # Mistral: a window is for every layer
    if window is not None and window < text.max_position_embeddings and "sliding_attention" in kinds:
        raise UnsupportedModel(
            f"{folder}: its language model attends through a sliding window of {window} positions, which the paged "
            "attention here does not do yet. Use a model with full attention."
        )


def _refuse_stateful_rope(folder: Path, text: Any) -> None:
    kind = (getattr(text, "rope_parameters", None) or {}).get("rope_type", "default")
    if kind in _STATEFUL_ROPE:
        raise UnsupportedModel(
            f"{folder}: rotary positions of type {kind!r} depend on the longest sequence seen, so that requests would "
            "change each other. Use a checkpoint with type 'default', 'linear', 'yarn' or 'llama3'."
        )
