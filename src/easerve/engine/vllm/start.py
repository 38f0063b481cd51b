"""Starts vLLM for a worker: one model, one device, the language model's weights only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import torch
from vllm import EngineArgs
from vllm.config import KVTransferConfig, VllmConfig
from vllm.platforms import current_platform

from easerve.engine.torch.options import EngineOptions
from easerve.engine.vllm.connector import HandOverConnector
from easerve.engine.vllm.core import Core
from easerve.engine.vllm.language_model import Shape, VllmLanguageModel
from easerve.engine.vllm.media import Arrangement, arrangement_for
from easerve.engine.vllm.pages import Pages
from easerve.engine.vllm.positions import Positions
from easerve.engine.vllm.reasons import check_names, reason
from easerve.errors import StartupError
from easerve.models.base import Family, KVShape
from easerve.models.build import own_dtype, read_config
from easerve.models.checkpoint import eos_token_ids, read_json
from easerve.models.weights import Weights

CPU_KV_BYTES = 2**30  # as the torch engine's: a server's share of a machine that does other things too
CUDA_SHARE = 0.8  # of the device's memory, weights included; an encode worker may live on the same device


def start(
    family: Family,
    dtype: torch.dtype | None,
    options: EngineOptions,
    arguments: Mapping[str, Any],
    device: str,
    *,
    kv_travels: bool = False,
) -> VllmLanguageModel:
    """`kv_travels`: sequences may come with keys and values, or hand theirs over.

    Raises StartupError with vLLM's reason, and UnsupportedModel for what takes no embeddings.
    """
    config = read_config(family.folder)
    arrange = arrangement_for(config.architectures[0])
    chosen = dtype or own_dtype(config, Weights(family.folder))
    if device == "cpu":  # or the first request for log-probabilities waits for a C++ compiler
        type(current_platform).simple_compile_backend = "eager"
    given = _arguments(str(family.folder), chosen, options, device) | _encoder_arguments(arrange)
    try:
        check_names(arguments, [field.name for field in fields(EngineArgs)])
        if kv_travels:
            given["kv_transfer_config"] = KVTransferConfig(
                kv_connector=HandOverConnector.__name__,
                kv_connector_module_path=HandOverConnector.__module__,
                kv_role="kv_both",
            )
        core = Core(EngineArgs(**{**given, **arguments}).create_engine_config())
    except Exception as error:
        raise StartupError(f"vLLM does not start: {reason(error, given)}") from error
    eos = eos_token_ids(family.folder, read_json(family.folder / "config.json"))
    shape = _shape(core.config, eos)
    if kv_travels:
        pages = Pages(core.attention_layers, shape.kv, core.config.cache_config.block_size)
        core.connector.serve(pages, Positions(core.model))
    return VllmLanguageModel(core, shape, arrange)


def _arguments(folder: str, dtype: torch.dtype, options: EngineOptions, device: str) -> dict[str, Any]:
    kv_bytes = options.kv_cache_bytes or (CPU_KV_BYTES if device == "cpu" else None)
    return {
        "model": folder,
        "dtype": str(dtype).removeprefix("torch."),
        "max_model_len": options.max_model_len or -1,  # as long as model and memory allow
        "max_num_seqs": options.max_sequences,
        "max_num_batched_tokens": options.max_batched_tokens,
        "enable_prefix_caching": options.prefix_cache,
        "kv_cache_memory_bytes": kv_bytes,
        "gpu_memory_utilization": CUDA_SHARE,
    }


def _encoder_arguments(arrange: Arrangement) -> dict[str, Any]:
    """Limits of no items, with embeddings let in, are vLLM's way to leave the encoder's weights out."""
    return {
        "enable_mm_embeds": True,
        "limit_mm_per_prompt": {"image": int(arrange.needs_encoder), "video": 0},
        "skip_mm_profiling": True,  # the encoder computes nothing here, loaded or not
        "mm_processor_cache_gb": 0,
    }


def _shape(config: VllmConfig, eos: tuple[int, ...]) -> Shape:
    model = config.model_config
    kv = KVShape(
        layers=model.get_num_layers(config.parallel_config),
        kv_heads=model.get_total_num_kv_heads(),
        head_dim=model.get_head_size(),
        dtype=model.dtype,
    )
    return Shape(kv, model.get_vocab_size(), model.get_hidden_size(), eos)
