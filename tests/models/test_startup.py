"""What is wrong with a model folder is said at startup, with the file at fault and the remedy."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from easerve.errors import StartupError, UnsupportedModel
from easerve.models.base import Family
from easerve.models.family import _DEFAULT_CONTEXT
from easerve.models.llava_next import LlavaNext
from easerve.models.llava_onevision import LlavaOnevision
from easerve.models.qwen2_vl import Qwen2VL
from easerve.models.qwen3_vl import Qwen3VL
from easerve.models.registry import load_family


@pytest.fixture
def folder(tiny: Callable[[str], Path], tmp_path: Path) -> Path:
    """A Qwen2.5-VL to spoil."""
    return Path(shutil.copytree(tiny("qwen2_5_vl"), tmp_path / "model"))


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def refused(folder: Path, *words: str, kind: type[StartupError] = StartupError) -> None:
    """Loading the family and both parts ends in one typed error that says `words`."""
    with pytest.raises(kind) as caught:
        family = load_family(str(folder))
        family.load_encoder("cpu", None)
        family.load_language_model("cpu", None)
    for word in words:
        assert word in caught.value.message


def test_no_such_folder(tmp_path: Path) -> None:
    refused(tmp_path / "nothing", str(tmp_path / "nothing"), "give an existing folder")


def test_no_such_hub_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no route to the hub")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    refused(Path("nobody/nothing"), "nobody/nothing", "no route to the hub", "download the model")


def test_hub_models_come_from_the_snapshot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {}

    def snapshot(model: str, **more: object) -> str:
        asked.update(more, model=model)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert load_family("some/model", revision="abc").folder == folder
    assert (asked["model"], asked["revision"]) == ("some/model", "abc")
    with pytest.raises(StartupError, match="only models of the hub have revisions"):
        load_family(str(folder), revision="abc")


def test_config_missing_or_broken(folder: Path) -> None:
    (folder / "config.json").write_text('{"architectures": [')
    refused(folder, "config.json", "JSON")
    (folder / "config.json").write_text("[]")
    refused(folder, "config.json", "object")
    (folder / "config.json").write_text("{}")
    refused(folder, "config.json", "architectures")
    (folder / "config.json").unlink()
    refused(folder, "config.json", "missing")


def test_config_that_transformers_refuses(folder: Path) -> None:
    edit(folder / "config.json", lambda config: config["vision_config"].update(depth="deep"))
    refused(folder, "config.json", "not a usable configuration")


def test_unsupported_architecture_names_those_supported(folder: Path) -> None:
    edit(folder / "config.json", lambda config: config.update(architectures=["LlamaForCausalLM"]))
    refused(folder, "LlamaForCausalLM", "Qwen2_5_VLForConditionalGeneration", "LlavaNext", kind=UnsupportedModel)


def test_quantized_checkpoint(folder: Path) -> None:
    edit(folder / "config.json", lambda config: config.update(quantization_config={"quant_method": "awq"}))
    refused(folder, "quantized", kind=UnsupportedModel)


def test_processor_settings_nested_missing_or_of_another_model(folder: Path) -> None:
    own = folder / "preprocessor_config.json"
    settings = json.loads(own.read_text())
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    expected = load_family(str(folder)).fingerprint()
    own.unlink()
    assert load_family(str(folder)).fingerprint() == expected
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": {**settings, "patch_size": 16}}))
    refused(folder, "patch_size is 16", "14")
    (folder / "processor_config.json").unlink()
    refused(folder, "preprocessor_config.json", "processor_config.json")


def test_canvases_of_another_model(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("llava_next"), tmp_path / "model"))
    edit(folder / "config.json", lambda config: config.update(image_grid_pinpoints=[[56, 56]]))
    refused(folder, "image_grid_pinpoints")


def test_odd_llava_settings(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("llava_onevision"), tmp_path / "model"))
    edit(folder / "config.json", lambda config: config.update(vision_aspect_ratio="square"))
    refused(folder, "square", "anyres_max_9", kind=UnsupportedModel)
    edit(folder / "config.json", lambda config: config.update(vision_feature_select_strategy="default"))
    refused(folder, "vision_feature_select_strategy", kind=UnsupportedModel)


def test_sliding_window_in_use(folder: Path) -> None:
    text = {"use_sliding_window": True, "sliding_window": 128, "max_window_layers": 1, "layer_types": None}
    edit(folder / "config.json", lambda config: config["text_config"].update(text))
    refused(folder, "sliding window of 128", kind=UnsupportedModel)


def test_sliding_window_wider_than_the_context_is_none(folder: Path) -> None:
    text = {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 0, "layer_types": None}
    edit(folder / "config.json", lambda config: config["text_config"].update(text))
    assert load_family(str(folder)).load_language_model("cpu", None).max_positions == 4096


def test_positions_that_depend_on_other_requests(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny("llava_next"), tmp_path / "model"))
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    edit(folder / "config.json", lambda config: config["text_config"].update(rope_parameters=rope))
    refused(folder, "dynamic", kind=UnsupportedModel)


def test_values_that_make_no_model(folder: Path) -> None:
    edit(folder / "config.json", lambda config: config["text_config"].update(num_attention_heads=5))
    refused(folder, "config.json", "does not make a model")
    edit(folder / "preprocessor_config.json", lambda settings: settings.update(patch_size="wide"))
    refused(folder, "cannot be used", "wide")


def test_missing_tensor_is_named(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    stored.pop("visual.merger.ln_q.weight")
    save_file(stored, folder / "model.safetensors")
    refused(folder, "visual.merger.ln_q.weight", str(folder))


def test_tensor_of_another_shape_is_named(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    head = stored.pop("lm_head.weight")
    save_file({**stored, "lm_head.weight": head[:3].clone()}, folder / "model.safetensors")
    refused(folder, "lm_head.weight", "(3, 64)", "(264, 64)")
    stored["lm_head.weight"] = head
    stored["visual.merger.ln_q.weight"] = torch.zeros(5)
    save_file(stored, folder / "model.safetensors")
    refused(folder, "visual.merger.ln_q.weight", "(5,)", "(32,)")


def test_pickles_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    refused(folder, ".bin", "save_pretrained")


def test_no_weights_torn_weights_missing_shard(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(folder, "model.safetensors", "download it again")
    (folder / "model.safetensors").unlink()
    refused(folder, "no model.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text("{}")
    refused(folder, "weight_map")
    index.write_text(json.dumps({"weight_map": dict.fromkeys(load_file_names(whole), "gone.safetensors")}))
    refused(folder, "gone.safetensors", "download it again")


def load_file_names(content: bytes) -> list[str]:
    length = int.from_bytes(content[:8], "little")
    return [name for name in json.loads(content[8 : 8 + length]) if name != "__metadata__"]


def test_end_tokens_come_from_the_generation_config_first(folder: Path) -> None:
    edit(folder / "generation_config.json", lambda config: config.update(eos_token_id=[7, 9]))
    assert load_family(str(folder)).load_language_model("cpu", None).eos_token_ids == (7, 9)
    (folder / "generation_config.json").unlink()
    assert load_family(str(folder)).load_language_model("cpu", None).eos_token_ids == (256,)
    edit(folder / "config.json", lambda config: config["text_config"].update(eos_token_id=None))
    assert load_family(str(folder)).load_language_model("cpu", None).eos_token_ids == ()


@pytest.mark.parametrize("family", [Qwen2VL, Qwen3VL, LlavaNext, LlavaOnevision])
def test_defaults_are_those_of_transformers(family: Any) -> None:
    """For checkpoints that leave out what equals a default."""
    names = {Qwen2VL: "qwen2_5_vl", Qwen3VL: "qwen3_vl", LlavaNext: "llava_next", LlavaOnevision: "llava_onevision"}
    theirs = AutoConfig.for_model(names[family], vision_config={})
    for key, value in family.default_vision.items():
        assert getattr(theirs.vision_config, key) == value
    ours: Family = family(Path(), {"text_config": {}}, _consistent(family))
    assert ours.image_token_id == theirs.image_token_id
    assert ours.context_length == theirs.text_config.max_position_embeddings
    if issubclass(family, LlavaNext):
        assert [list(canvas) for canvas in family.default_canvases] == theirs.image_grid_pinpoints


def _consistent(family: Any) -> dict[str, Any]:
    """Settings that go with the default vision config, whatever the processor's own defaults are."""
    edge = {"height": family.default_vision.get("image_size"), "width": family.default_vision.get("image_size")}
    return {"patch_size": family.default_vision["patch_size"], **({"crop_size": edge} if edge["height"] else {})}


@pytest.mark.parametrize("name", sorted(_DEFAULT_CONTEXT))
def test_default_contexts_are_those_of_transformers(name: str) -> None:
    assert AutoConfig.for_model(name).max_position_embeddings == _DEFAULT_CONTEXT[name]
