"""From a Hugging Face config.json, with every value in it, to a shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from easerve.costs.shapes.encoders import ENCODERS
from easerve.costs.shapes.language import Experts, LanguageShape, LinearAttention
from easerve.costs.shapes.model import ModelShape
from easerve.errors import StartupError, UnsupportedModel

_BIASED = ("qwen2", "qwen2_vl_text", "qwen2_5_vl_text")  # in queries, keys and values
_NORMED = ("qwen3", "gemma3_text")  # queries and keys; by how the text model's type begins


def shape_of(name: str, config: Mapping[str, Any]) -> ModelShape:
    """Raises UnsupportedModel for a model type without an encoder here, StartupError where config lacks a value."""
    kind = config.get("model_type", "")
    if kind not in ENCODERS:
        raise UnsupportedModel(f"{name}: no shape is known for models of type {kind!r}; for {', '.join(ENCODERS)}")
    try:
        language = _language(config, config["text_config"])
        encoder = ENCODERS[kind](config, language.width)
    except KeyError as error:
        raise StartupError(f"{name}: its config.json lacks {error.args[0]!r}, which its shape depends on") from error
    deepstack = (config.get("vision_config") or {}).get("deepstack_visual_indexes") or ()
    return ModelShape(name, language, encoder, levels=1 + len(deepstack))


def _language(config: Mapping[str, Any], text: Mapping[str, Any]) -> LanguageShape:
    kind = text["model_type"]
    heads = text["num_attention_heads"]
    return LanguageShape(
        layers=text["num_hidden_layers"],
        width=text["hidden_size"],
        heads=heads,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or text["hidden_size"] // heads,
        mlp=text.get("intermediate_size") or 0,
        vocabulary=text["vocab_size"],
        context=text["max_position_embeddings"],
        tied=bool(config.get("tie_word_embeddings", False) or text.get("tie_word_embeddings", False)),
        qkv_bias=kind in _BIASED,
        qk_norm=kind.startswith(_NORMED),
        gated_query=kind.startswith("qwen3_5"),
        norms=4 if kind == "gemma3_text" else 2,
        experts=_experts(text),
        linear=_linear_attention(text),
    )


def _experts(text: Mapping[str, Any]) -> Experts | None:
    if not text.get("num_experts"):
        return None
    return Experts(
        count=text["num_experts"],
        active=text["num_experts_per_tok"],
        mlp=text["moe_intermediate_size"],
        shared_mlp=text.get("shared_expert_intermediate_size") or 0,
    )


def _linear_attention(text: Mapping[str, Any]) -> LinearAttention | None:
    layers = sum(kind == "linear_attention" for kind in text.get("layer_types") or ())
    if not layers:
        return None
    return LinearAttention(
        layers=layers,
        key_heads=text["linear_num_key_heads"],
        value_heads=text["linear_num_value_heads"],
        key_dim=text["linear_key_head_dim"],
        value_dim=text["linear_value_head_dim"],
        convolution=text["linear_conv_kernel_dim"],
    )
