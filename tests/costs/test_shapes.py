"""Shapes count parameters to the last one; sizes of published models are those that were published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from easerve.builtin import model_path
from easerve.costs.pictures import audio_size, picture_size
from easerve.costs.shapes.find import find_shape, known_models
from easerve.costs.shapes.read import shape_of
from easerve.errors import StartupError, UnsupportedModel
from tests.tiny_models import FAMILIES, make_tiny

PUBLISHED = {  # parameters as their makers or the hub state them
    "llava-v1.6-34b": 34.8e9,
    "qwen2.5-vl-7b": 8_292_166_656,
    "qwen2.5-vl-32b": 33_452_718_336,
    "ultravox-27b": 27.7e9,
    "qwen3.5-4b": 4.5e9,
    "qwen3.5-9b": 9.4e9,
    "qwen3.5-27b": 27.4e9,
    "qwen3.5-122b-a10b": 122.5e9,
}
KINDS = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]
HYBRID = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
    "vocab_size": 264, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
    "linear_value_head_dim": 8, "layer_types": KINDS,
}  # fmt: skip
EXPERTS = {
    "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 40,
}  # fmt: skip
VISION = {
    "depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64,
    "num_position_embeddings": 36,
}  # fmt: skip
NEWER: dict[str, dict[str, Any]] = {
    "qwen3_5": {"text_config": {**HYBRID, "intermediate_size": 96}, "vision_config": VISION},
    "qwen3_5_moe": {"text_config": {**HYBRID, **EXPERTS}, "vision_config": VISION},
}


def transformers_config(family: str) -> Any:
    from transformers import AutoConfig

    return AutoConfig.for_model(family, **NEWER[family]) if family in NEWER else FAMILIES[family]()[0]


@pytest.mark.parametrize("family", [*FAMILIES, *NEWER])
def test_parameters_are_those_of_transformers_modules(family: str) -> None:
    from easerve.models.build import skeleton

    config = transformers_config(family)
    shape = shape_of(family, config.to_dict())
    modules = skeleton(config)
    language = sum(p.numel() for p in modules.language_model.parameters())
    encoder = sum(p.numel() for p in modules.parameters()) - language
    head = 0 if shape.language.tied else shape.language.vocabulary * shape.language.width
    assert (shape.language.parameters, shape.encoder.parameters) == (language + head, encoder)


def test_parameters_of_the_built_in_model_are_those_of_its_file() -> None:
    with safe_open(model_path() / "model.safetensors", "np") as file:
        sizes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 - no mapping
    total = 0
    for size in sizes:
        product = 1
        for edge in size:
            product *= edge
        total += product
    assert find_shape("builtin").parameters == total


@pytest.mark.parametrize("model", PUBLISHED)
def test_published_models_have_their_published_size(model: str) -> None:
    assert find_shape(model).parameters == pytest.approx(PUBLISHED[model], rel=0.01)
    assert model in known_models()


def test_ten_of_122_billion_take_part_in_a_token() -> None:
    language = find_shape("Qwen/Qwen3.5-122B-A10B").language
    assert language.active_parameters + language.tables == pytest.approx(10e9, rel=0.05)
    assert language.kv_bytes_per_token == 2 * 2 * 12 * 2 * 256  # twelve of 48 layers keep keys and values


def test_the_vision_share_of_parameters_is_as_reported() -> None:
    """Reported: 7.2, 4.7 and 1.7 % in the Dynamo post on Qwen3.5."""
    for model, reported in (("qwen3.5-4b", 0.072), ("qwen3.5-9b", 0.047), ("qwen3.5-27b", 0.017)):
        shape = find_shape(model)
        assert shape.encoder.parameters / shape.parameters == pytest.approx(reported, abs=0.002)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [(70, 90), (112, 56), (150, 40)])
def test_an_item_is_as_large_as_what_the_processor_hands_to_the_encoder(
    family: str, size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import numpy as np

    from easerve.models.registry import load_family

    folder = make_tiny(family, tmp_path / family)
    encoder = load_family(str(folder)).load_encoder("cpu", None)
    picture = np.zeros((*size, 3), np.uint8)
    handed = encoder._preprocess([picture]).values  # type: ignore[attr-defined]
    span = find_shape(str(folder)).encoder.span
    item = picture_size(str(folder))(*size)
    assert item.patches == (len(handed) if span is None else len(handed) * span)
    assert item.tokens == len(encoder.encode([picture])[0].values)


def test_sound_counts_fifty_positions_a_second_and_eight_for_a_token() -> None:
    item = audio_size("ultravox-27b")(12.3)
    assert (item.patches, item.tokens) == (615, 77)
    with pytest.raises(StartupError, match="takes no sound"):
        audio_size("qwen2.5-vl-7b")
    with pytest.raises(StartupError, match="takes no pictures"):
        picture_size("ultravox-27b")


def test_what_is_not_known_is_said_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"'gpt-9' is not known.*qwen2\.5-vl-7b.*builtin"):
        find_shape("gpt-9")
    with pytest.raises(UnsupportedModel, match=r"'bert'.*qwen2_5_vl"):
        shape_of("x", {"model_type": "bert"})
    with pytest.raises(StartupError, match="lacks 'text_config'"):
        shape_of("x", {"model_type": "qwen2_5_vl"})
