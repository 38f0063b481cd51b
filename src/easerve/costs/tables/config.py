"""A language model as a config.json that aiconfigurator-core has a model definition for."""

from __future__ import annotations

from typing import Any

from easerve.costs.shapes.language import LanguageShape


def engine_config(shape: LanguageShape) -> dict[str, Any]:
    """Dense models are described as a Llama, mixtures of experts as a Qwen3-MoE, models with linear attention as a
    Qwen3.5: sizes decide which kernels run, not names."""
    if shape.linear is not None:
        name = "Qwen3_5MoeForConditionalGeneration" if shape.experts else "Qwen3_5ForConditionalGeneration"
        text = {**_sizes(shape), **_experts(shape), **_linear(shape)}
        return {"architectures": [name], "model_type": "qwen3_5", "text_config": text}
    name = "Qwen3MoeForCausalLM" if shape.experts else "LlamaForCausalLM"
    return {"architectures": [name], "model_type": "llama", **_sizes(shape), **_experts(shape)}


def _sizes(shape: LanguageShape) -> dict[str, Any]:
    return {
        "dtype": "bfloat16",
        "torch_dtype": "bfloat16",
        "hidden_size": shape.width,
        "intermediate_size": shape.mlp,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "num_hidden_layers": shape.layers,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.context,
    }


def _experts(shape: LanguageShape) -> dict[str, Any]:
    own = shape.experts
    if own is None:
        return {}
    return {
        "num_experts": own.count,
        "num_experts_per_tok": own.active,
        "moe_intermediate_size": own.mlp,
        "shared_expert_intermediate_size": own.shared_mlp,
    }


def _linear(shape: LanguageShape) -> dict[str, Any]:
    own = shape.linear
    assert own is not None
    kinds = ["linear_attention"] * own.layers + ["full_attention"] * shape.attention_layers  # their order costs nothing
    return {
        "layer_types": kinds,
        "linear_num_key_heads": own.key_heads,
        "linear_num_value_heads": own.value_heads,
        "linear_key_head_dim": own.key_dim,
        "linear_value_head_dim": own.value_dim,
        "linear_conv_kernel_dim": own.convolution,
    }
