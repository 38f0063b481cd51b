"""Every family's embeddings, as vLLM takes them: the torch engine's answers, alone and after a hand-over.

A process has one vLLM engine: run one family at a time (`-k qwen3_vl`), as `test_in_its_environment.py` does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from easerve.request import SamplingParams
from tests import tiny_models
from tests.engine.helpers import Parts, drive, load_parts, prefilled

from .engines import vllm_engine

GREEDY = SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True)
LLAVA_NAMES = {"<|image_pad|>": "<image>", "<|video_pad|>": "<video>"}  # vLLM measures items with these, literally


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(tiny_models.FAMILIES))
def test_a_family_answers_as_with_the_torch_engine(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = _tiny(family, tmp_path, monkeypatch)
    engine = vllm_engine(parts, blocks=24, kv_travels=True)
    asked = [
        parts.sequence("text", 17, (), GREEDY),
        parts.sequence("picture", 9, [(70, 90)], GREEDY),
        parts.sequence("two", 12, [(112, 112), (64, 90)], GREEDY, between=0),
    ]
    expected = drive(parts.engine(), asked).tokens
    assert drive(engine, asked).tokens == expected
    first, rest = prefilled(engine, asked)
    after = drive(engine, rest).tokens
    assert {name: first.tokens[name] + after[name] for name in expected} == expected


def _tiny(family: str, folder: Path, patch: pytest.MonkeyPatch) -> Parts:
    """A tiny checkpoint with what vLLM asks beyond transformers: heads of 32, and the files of a whole processor."""
    if family.startswith("llava"):
        _name_placeholders(patch)
    sound = tiny_models.FAMILIES[family]

    def widened() -> Any:
        config, processor, picture = sound()
        text = config.text_config
        text.num_attention_heads, text.num_key_value_heads, text.head_dim = 2, 1, 32
        if "mrope_section" in (text.rope_parameters or {}):
            text.rope_parameters["mrope_section"] = [4, 6, 6]
        if family == "llava_onevision":
            config.video_token_index = tiny_models.IDS[tiny_models.VIDEO]
        return config, processor, picture

    patch.setitem(tiny_models.FAMILIES, family, widened)
    tiny_models.make_tiny(family, folder)
    _complete_processor(family, folder)
    return load_parts(folder)


def _name_placeholders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tiny_models, "IDS", {LLAVA_NAMES.get(name, name): at for name, at in tiny_models.IDS.items()})
    patch.setattr(tiny_models, "SPECIAL", tuple(tiny_models.IDS))
    patch.setattr(tiny_models, "IMAGE", "<image>")
    patch.setattr(tiny_models, "VIDEO", "<video>")


def _complete_processor(family: str, folder: Path) -> None:
    kinds = {"qwen3_vl": "Qwen3VL", "llava_next": "LlavaNext", "llava_onevision": "LlavaOnevision"}
    kind = kinds.get(family, "Qwen2VL")
    pictures = json.loads((folder / "preprocessor_config.json").read_text())
    videos = pictures | {"video_processor_type": f"{kind}VideoProcessor"}
    (folder / "video_preprocessor_config.json").write_text(json.dumps(videos))
    if family.startswith("llava"):
        whole = {
            "processor_class": f"{kind}Processor", "patch_size": 14, "image_token": "<image>", "num_image_tokens": 16,
            "vision_feature_select_strategy": "default" if family == "llava_next" else "full",
            "num_additional_image_tokens": int(family == "llava_next"), "vision_aspect_ratio": "anyres_max_9",
        }  # fmt: skip
        (folder / "processor_config.json").write_text(json.dumps(whole))
