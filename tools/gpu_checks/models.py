"""Random models of real size: modules as the engine loads them, weights drawn on the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from easerve.engine.base import SequenceFailed
from easerve.engine.torch.engine import TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.models.base import PAGED_ATTENTION, Embedding, MediaSpan
from easerve.models.build import skeleton
from easerve.models.language import Decoder
from gpu_checks.setting import Setting

PICTURE_TOKEN, TEXT_TOKEN = 3, 1
PATCH, MERGE = 14, 2

VISION_7B = {
    "depth": 32, "hidden_size": 1280, "num_heads": 16, "intermediate_size": 3420, "out_hidden_size": 3584,
    "fullatt_block_indexes": [7, 15, 23, 31], "window_size": 112, "patch_size": PATCH, "spatial_merge_size": MERGE,
}  # fmt: skip
TEXT_7B: dict[str, Any] = {
    "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4,
    "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
TEXT_32B = TEXT_7B | {
    "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 40, "num_key_value_heads": 8,
    "intermediate_size": 27648,
}  # fmt: skip
VISION_TINY = VISION_7B | {
    "depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 64, "out_hidden_size": 64,
    "fullatt_block_indexes": [1],
}  # fmt: skip
TEXT_TINY: dict[str, Any] = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 4096,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]},
    "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


class Encoder:
    """A Qwen2.5-VL vision encoder over patches that lie on the device already."""

    def __init__(self, setting: Setting) -> None:
        from transformers import Qwen2_5_VLConfig

        vision, text = (VISION_TINY, TEXT_TINY) if setting.tiny else (VISION_7B, TEXT_7B)
        config = Qwen2_5_VLConfig(vision_config=vision, text_config={**text, "num_hidden_layers": 1})
        model: Any = skeleton(config)
        del model.language_model
        self._model = _filled(model, setting)
        self._setting = setting
        self._patches: dict[int, torch.Tensor] = {}

    @torch.inference_mode()
    def encode(self, items: int, side: int) -> list[Embedding]:
        """`items` pictures of `side` x `side` pixels, all the same."""
        edge = side // (PATCH * MERGE) * MERGE
        grid = torch.tensor([[1, edge, edge]] * items)
        patches = self._of(edge)
        output = self._model.get_image_features(patches.repeat(items, 1), image_grid_thw=grid.to(self._setting.device))
        return [Embedding(values.clone(), (1, edge, edge)) for values in output.pooler_output]

    def tokens(self, side: int) -> int:
        """Of one embedding."""
        return (side // (PATCH * MERGE)) ** 2

    def _of(self, edge: int) -> torch.Tensor:
        if edge not in self._patches:
            shape = (edge * edge, 3 * 2 * PATCH * PATCH)
            self._patches[edge] = torch.randn(shape, device=self._setting.device, dtype=self._setting.dtype)
        return self._patches[edge]


@dataclass(frozen=True)
class Language:
    """A language model behind the engine, and what a roofline needs to know of it."""

    engine: TorchLanguageModel
    weights: int  # numbers that every token is multiplied by
    layers: int
    heads: int
    head_dim: int
    kv_bytes: int  # per token

    def drain(self) -> None:
        """Steps until nothing is left."""
        while self.engine.has_work():
            self.step()

    def step(self) -> None:
        """One engine step. Raises what made a sequence fail: that is no time of a step."""
        for event in self.engine.step():
            if isinstance(event, SequenceFailed):
                raise event.error


def language(setting: Setting, shape: dict[str, Any], options: EngineOptions) -> Language:
    """A Qwen2.5 text model of that shape, its head tied to nothing."""
    from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig

    bare = skeleton(Qwen2_5_VLTextConfig(**shape), attn_implementation=PAGED_ATTENTION)
    model = _filled(bare, setting)
    head = torch.empty(shape["vocab_size"], shape["hidden_size"], device=setting.device, dtype=setting.dtype).normal_(
        std=0.02
    )
    part = Decoder(model, head, _positions, eos=())
    table = model.embed_tokens.weight.numel()
    weights = sum(parameter.numel() for parameter in model.parameters()) - table + head.numel()
    kv = part.kv
    return Language(
        TorchLanguageModel(part, options),
        weights,
        kv.layers,
        shape["num_attention_heads"],
        kv.head_dim,
        kv.bytes_per_token,
    )


def _positions(length: int, media: Sequence[MediaSpan]) -> tuple[torch.Tensor, int]:
    """Three equal rows: where a token stands does not change how long it takes."""
    return torch.arange(length).expand(3, -1), length


def _filled(module: torch.nn.Module, setting: Setting) -> Any:
    """Random matrices, norms of one, biases of zero; on the device."""
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            tensor = torch.empty(parameter.shape, device=setting.device, dtype=setting.dtype)
            if parameter.ndim > 1:
                tensor.normal_(std=0.02)
            else:
                tensor.fill_(0.0 if name == "bias" else 1.0)
            setattr(owner, name, torch.nn.Parameter(tensor, requires_grad=False))
    return module.to(setting.device).eval()
