"""Each family's encoder, from its config.

`small` counts what is in no matrix: biases, norms, tables of positions. Those of a usual layer are biases of queries,
keys, values, outputs and both MLP matrices, and two norms with a bias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from easerve.costs.shapes.encoder import EncoderShape

Config = Mapping[str, Any]


def _usual(width: int, mlp: int) -> int:
    return 4 * width + 2 * 2 * width + mlp + width


def qwen2_vl(config: Config, _: int) -> EncoderShape:
    vision = config["vision_config"]
    width, out, depth = vision["embed_dim"], vision["hidden_size"], vision["depth"]
    mlp = int(width * vision["mlp_ratio"])
    merged = width * vision["spatial_merge_size"] ** 2
    return EncoderShape(
        depth=depth,
        width=width,
        heads=vision["num_heads"],
        mlp=mlp,
        gated=False,
        inputs=_patch(vision),
        merge=vision["spatial_merge_size"] ** 2,
        projector=((merged, merged), (merged, out)),
        small=depth * _usual(width, mlp) + 2 * width + merged + out,
    )


def qwen2_5_vl(config: Config, _: int) -> EncoderShape:
    """Most layers see windows only; norms have no bias."""
    vision = config["vision_config"]
    width, mlp = vision["hidden_size"], vision["intermediate_size"]
    depth, out = vision["depth"], vision["out_hidden_size"]
    merged = width * vision["spatial_merge_size"] ** 2
    return EncoderShape(
        depth=depth,
        width=width,
        heads=vision["num_heads"],
        mlp=mlp,
        gated=True,
        inputs=_patch(vision),
        merge=vision["spatial_merge_size"] ** 2,
        projector=((merged, merged), (merged, out)),
        small=depth * (4 * width + 2 * width + 2 * mlp + width) + width + merged + out,
        windowed=depth - len(vision["fullatt_block_indexes"]),
        window=(vision["window_size"] // vision["patch_size"]) ** 2,
    )


def qwen3_vl(config: Config, _: int) -> EncoderShape:
    """Qwen3-VL and Qwen3.5. Deepstack taps inner layers, each through a merger of its own."""
    vision = config["vision_config"]
    width, mlp = vision["hidden_size"], vision["intermediate_size"]
    depth, out = vision["depth"], vision["out_hidden_size"]
    merged = width * vision["spatial_merge_size"] ** 2
    taps = len(vision.get("deepstack_visual_indexes") or ())
    positions = vision["num_position_embeddings"] * width
    mergers = 2 * width + taps * 2 * merged + (1 + taps) * (merged + out)
    return EncoderShape(
        depth=depth,
        width=width,
        heads=vision["num_heads"],
        mlp=mlp,
        gated=False,
        inputs=_patch(vision),
        merge=vision["spatial_merge_size"] ** 2,
        projector=((merged, merged), (merged, out)) * (1 + taps),
        small=depth * _usual(width, mlp) + width + positions + mergers,
    )


def llava_next(config: Config, language_width: int) -> EncoderShape:
    """CLIP over tiles, without its last layers. A class token goes along in each tile."""
    width, tile = config["vision_config"]["hidden_size"], _tile(config["vision_config"])
    return _tiled(config, language_width, span=tile + 1, small=width + (tile + 1) * width + 4 * width)


def llava_onevision(config: Config, language_width: int) -> EncoderShape:
    """SigLIP over tiles."""
    width, tile = config["vision_config"]["hidden_size"], _tile(config["vision_config"])
    return _tiled(config, language_width, span=tile, small=width + tile * width + 2 * width)


def _tiled(config: Config, language_width: int, span: int, small: int) -> EncoderShape:
    """`small`: what the vision tower has beside its layers. The projector has biases, and there is a newline vector."""
    vision = config["vision_config"]
    width, mlp, layers = vision["hidden_size"], vision["intermediate_size"], vision["num_hidden_layers"]
    taken = config["vision_feature_layer"]
    idle = -taken - 1 if taken < 0 else layers - taken
    return EncoderShape(
        depth=layers - idle,
        idle_depth=idle,
        width=width,
        heads=vision["num_attention_heads"],
        mlp=mlp,
        gated=False,
        inputs=vision.get("num_channels", 3) * vision["patch_size"] ** 2,
        merge=1,
        projector=((width, language_width), (language_width, language_width)),
        small=layers * _usual(width, mlp) + small + 3 * language_width,
        span=span,
    )


def ultravox(config: Config, language_width: int) -> EncoderShape:
    """Whisper's encoder: two convolutions, then layers over at most 30 s; frames are stacked for a gated projector.

    Keys have no bias. Half of the projector's inner width is its gate.
    """
    audio = config["audio_config"]
    width, mlp = audio["d_model"], audio["encoder_ffn_dim"]
    depth, positions = audio["encoder_layers"], audio["max_source_positions"]
    stacked, inner = width * config["stack_factor"], config["hidden_size"]
    return EncoderShape(
        depth=depth,
        width=width,
        heads=audio["encoder_attention_heads"],
        mlp=mlp,
        gated=False,
        inputs=3 * audio["num_mel_bins"] + 3 * width,
        merge=config["stack_factor"],
        projector=((stacked, inner), (inner // 2, language_width)),
        small=depth * (_usual(width, mlp) - width) + 2 * width + positions * width + 2 * width + stacked + inner // 2,
        span=positions,
    )


def _patch(vision: Config) -> int:
    """Numbers in a patch."""
    return int(vision.get("in_channels", 3) * vision["temporal_patch_size"] * vision["patch_size"] ** 2)


def _tile(vision: Config) -> int:
    """Patches in a tile."""
    return int((vision["image_size"] // vision["patch_size"]) ** 2)


ENCODERS: dict[str, Callable[[Config, int], EncoderShape]] = {
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl,
    "qwen3_5": qwen3_vl,
    "qwen3_5_moe": qwen3_vl,
    "llava_next": llava_next,
    "llava_onevision": llava_onevision,
    "ultravox": ultravox,
}
