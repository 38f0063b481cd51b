"""A part holds its own weights and nothing else, whoever saved the checkpoint, and leaves nothing behind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny_models import IDS, random_picture
from transformers import AutoConfig, AutoModelForImageTextToText

from easerve.models.base import Family
from easerve.models.registry import load_family
from easerve.models.weights import canonical

BUILTIN = Path(__file__).parents[2] / "src" / "easerve" / "builtin" / "model"


def tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, those included that no checkpoint holds."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def test_parts_hold_what_the_whole_model_holds(checkpoint: Path) -> None:
    whole = AutoModelForImageTextToText.from_pretrained(checkpoint).eval()
    expected = {name.removeprefix("model."): tensor for name, tensor in tensors(whole).items()}
    family = load_family(str(checkpoint))
    encoder: Any = family.load_encoder("cpu", None)
    decoder: Any = family.load_language_model("cpu", None)
    found = tensors(encoder.model)
    assert not any(name.startswith("language_model") for name in found)
    found.update({f"language_model.{name}": tensor for name, tensor in tensors(decoder.model).items()})
    if decoder.head is not decoder.model.embed_tokens.weight:
        found["lm_head.weight"] = decoder.head
    assert found.keys() == expected.keys()
    for name, tensor in found.items():
        assert torch.equal(tensor, expected[name]), name
        assert tensor.dtype == expected[name].dtype, name
        assert not tensor.requires_grad


def test_sizes_a_worker_plans_with(checkpoint: Path) -> None:
    family = load_family(str(checkpoint))
    part = family.load_language_model("cpu", torch.bfloat16)
    assert (part.kv.layers, part.kv.kv_heads, part.kv.head_dim) == (3, 2, 16)
    assert part.kv.bytes_per_token == 2 * 3 * 2 * 16 * 2
    assert (part.dtype, part.device.type) == (torch.bfloat16, "cpu")
    assert (part.vocab_size, part.width, part.max_positions) == (264, 64, 4096)
    assert part.eos_token_ids == (IDS["<|im_end|>"],)
    assert family.context_length == part.max_positions
    assert family.load_encoder("cpu", None).width == part.width


def test_dtype_is_the_checkpoints_unless_asked_for(checkpoint: Path, tmp_path: Path) -> None:
    model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.bfloat16)
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    model.save_pretrained(tmp_path)
    family = load_family(str(tmp_path))
    picture = [random_picture(60, 60)]
    assert family.load_encoder("cpu", None).encode(picture)[0].values.dtype == torch.bfloat16
    assert family.load_encoder("cpu", torch.float32).encode(picture)[0].values.dtype == torch.float32
    stated = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(_without_dtype(stated)))
    assert load_family(str(tmp_path)).load_language_model("cpu", None).dtype == torch.bfloat16


def _without_dtype(config: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _without_dtype(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key != "dtype"
    }


def test_loading_draws_no_random_numbers(checkpoint: Path) -> None:
    before = torch.get_rng_state()
    family = load_family(str(checkpoint))
    family.load_encoder("cpu", None)
    family.load_language_model("cpu", None)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.get_default_dtype() == torch.float32


def _today(name: str) -> str:
    return name if name.startswith("lm_head.") else f"model.{name}"


def _older_llava(name: str) -> str:
    name = name.replace("language_model.", "language_model.model.").replace("lm_head.", "language_model.lm_head.")
    return name.replace("vision_tower.", "vision_tower.vision_model.")


def _older_qwen(name: str) -> str:
    return name.replace("language_model.", "model.")


LAYOUTS = {"today": _today, "older LLaVA": _older_llava, "older Qwen-VL": _older_qwen}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_known_layout_loads_sharded_or_not(
    checkpoint: Path, tmp_path: Path, layout: Callable[[str], str]
) -> None:
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    stored = {layout(canonical(name)): tensor for name, tensor in load_file(tmp_path / "model.safetensors").items()}
    (tmp_path / "model.safetensors").unlink()
    names = sorted(stored)
    shards = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({name: stored[name] for name in part}, tmp_path / file)
    places = {name: file for file, part in shards.items() for name in part}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    assert _all_weights(load_family(str(tmp_path))) == _all_weights(load_family(str(checkpoint)))


def _all_weights(family: Family) -> dict[str, list[float]]:
    encoder: Any = family.load_encoder("cpu", None)
    decoder: Any = family.load_language_model("cpu", None)
    found = {**tensors(encoder.model), **tensors(decoder.model), "head": decoder.head}
    return {name: tensor.flatten().tolist() for name, tensor in found.items()}


def test_a_head_beside_a_tied_table_is_used(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    """As transformers does: what the checkpoint holds wins over what its config says."""
    shutil.copytree(tiny("qwen2_5_vl"), tmp_path, dirs_exist_ok=True)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    decoder: Any = load_family(str(tmp_path)).load_language_model("cpu", None)
    assert torch.equal(decoder.head, load_file(tmp_path / "model.safetensors")["lm_head.weight"])


MEASURE = """
import json, sys, psutil, torch
from transformers import AttentionInterface
AttentionInterface.register("easerve_paged", lambda *a, **k: None)
from easerve.models.registry import load_family
tiny, big = (load_family(folder) for folder in sys.argv[1:])
kept = [tiny.load_encoder("cpu", None), tiny.load_language_model("cpu", None)]
grown = []
for load in (big.load_encoder, big.load_language_model):
    before = psutil.Process().memory_info().rss
    kept.append(load("cpu", None))
    grown.append(psutil.Process().memory_info().rss - before)
print(json.dumps(grown))
"""


def test_an_encode_worker_does_not_hold_the_language_model(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    config = AutoConfig.from_pretrained(tiny("qwen2_5_vl"))
    config.text_config.intermediate_size = 120_000  # three layers of 3 x 64 x 120,000: 276 MB of float32
    shutil.copytree(tiny("qwen2_5_vl"), tmp_path, dirs_exist_ok=True)
    config.save_pretrained(tmp_path)
    stored = load_file(tmp_path / "model.safetensors")
    for name in [name for name in stored if ".mlp." in name and "visual" not in name]:
        shape = (64, 120_000) if "down_proj" in name else (120_000, 64)
        stored[name] = torch.full(shape, 0.01)
    save_file(stored, tmp_path / "model.safetensors")
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tiny("qwen2_5_vl")), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    encoder, decoder = json.loads(done.stdout)
    weights = 3 * 3 * 64 * 120_000 * 4
    assert encoder < 0.1 * weights
    assert 0.9 * weights < decoder < 1.3 * weights


@pytest.mark.skipif(not (BUILTIN / "config.json").is_file(), reason="the built-in model is not there")
def test_the_built_in_model_loads() -> None:
    family = load_family(str(BUILTIN))
    (item,) = family.load_encoder("cpu", None).encode([random_picture(112, 112)])
    part = family.load_language_model("cpu", None)
    assert len(item.values) == family.image_tokens(112, 112)
    assert item.values.shape[1] == part.width
    assert part.eos_token_ids
