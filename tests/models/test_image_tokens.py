"""Token counts, from arithmetic alone, are what the processors and models of transformers make."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tiny_models import random_picture
from transformers.models.llava_next import modeling_llava_next
from transformers.models.llava_onevision import modeling_llava_onevision
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from easerve.errors import BadRequest
from easerve.models.base import Family
from easerve.models.llava_next import LlavaNext
from easerve.models.llava_onevision import LlavaOnevision
from easerve.models.qwen2_vl import Qwen2VL
from easerve.models.qwen3_vl import Qwen3VL
from easerve.models.registry import load_family

NOWHERE = Path("nowhere")
EDGES = st.one_of(st.integers(1, 60), st.integers(1, 4000), st.integers(1, 30_000))

# The settings of the published checkpoints.
QWEN2 = {"min_pixels": 3136, "max_pixels": 12845056, "patch_size": 14, "merge_size": 2}
QWEN3 = {"size": {"shortest_edge": 65536, "longest_edge": 16777216}, "patch_size": 16, "merge_size": 2}
SMALL = {"size": {"shortest_edge": 4 * 28 * 28, "longest_edge": 16 * 28 * 28}}
NEXT = {"crop_size": {"height": 336, "width": 336}, "size": {"shortest_edge": 336}}
ONEVISION = {"size": {"height": 384, "width": 384}}


def counted(family: Family, height: int, width: int) -> int | None:
    try:
        return family.image_tokens(height, width)
    except BadRequest:
        return None


@pytest.mark.parametrize(("family", "processor"), [(Qwen2VL, {}), (Qwen2VL, QWEN2), (Qwen3VL, QWEN3), (Qwen2VL, SMALL)])
def test_qwen_counts_are_the_processors(family: type[Family], processor: dict[str, Any]) -> None:
    ours = family(NOWHERE, {}, processor)
    theirs = Qwen2VLImageProcessorPil.from_dict(dict(processor))

    @settings(max_examples=300, deadline=None)
    @given(EDGES, EDGES)
    @example(200, 1)
    @example(201, 1)
    @example(1, 1)
    def check(height: int, width: int) -> None:
        try:
            patches = theirs.get_number_of_image_patches(height, width)
        except ValueError:
            patches = None
        assert counted(ours, height, width) == (None if patches is None else patches // 4)

    check()


def llava_features(module: Any, model: Any, config: Any, height: int, width: int) -> int | None:
    """Features that transformers' model makes of zeros, as wide as one number."""
    tile, patch = config.vision_config.image_size, config.vision_config.patch_size
    size = torch.tensor([height, width])
    tiles = module.image_size_to_num_patches(size, config.image_grid_pinpoints, tile)
    features = torch.zeros(tiles, (tile // patch) ** 2, 1)
    more = {"vision_feature_select_strategy": "default"} if model is modeling_llava_next.LlavaNextModel else {}
    try:
        packed, _ = model.pack_image_features(
            SimpleNamespace(config=config), [features], size[None], image_newline=torch.zeros(1), **more
        )
    except RuntimeError:  # scaled down to nothing
        return None
    return len(packed[0])


@pytest.mark.parametrize(
    ("family", "vision", "processor"),
    [
        (LlavaNext, {"image_size": 336, "patch_size": 14}, NEXT),
        (LlavaOnevision, {"image_size": 384, "patch_size": 14}, ONEVISION),
    ],
)
def test_llava_counts_are_the_models(family: type[Family], vision: dict[str, int], processor: dict[str, Any]) -> None:
    ours = family(NOWHERE, {"vision_config": vision}, processor)
    pinpoints = [list(canvas) for canvas in family.default_canvases]  # type: ignore[attr-defined]
    config = SimpleNamespace(vision_config=SimpleNamespace(**vision), image_grid_pinpoints=pinpoints)
    module: Any = modeling_llava_next if family is LlavaNext else modeling_llava_onevision
    model = module.LlavaNextModel if family is LlavaNext else module.LlavaOnevisionModel

    @settings(max_examples=200, deadline=None)
    @given(EDGES, EDGES)
    @example(1, 30_000)
    @example(1, 1)
    @example(3, 1000)
    def check(height: int, width: int) -> None:
        assert counted(ours, height, width) == llava_features(module, model, config, height, width)

    check()


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (1, 150), (150, 1), (333, 77), (28, 56), (500, 500)])
def test_encoding_makes_the_counted_tokens(checkpoint: Path, size: tuple[int, int]) -> None:
    family = load_family(str(checkpoint))
    (item,) = family.load_encoder("cpu", None).encode([random_picture(*size)])
    assert len(item.values) == family.image_tokens(*size)
    assert item.deepstack is None or item.deepstack.shape[1:] == item.values.shape


def test_refusals_name_the_size() -> None:
    with pytest.raises(BadRequest, match="1x999"):
        Qwen2VL(NOWHERE, {}, {}).image_tokens(999, 1)
    with pytest.raises(BadRequest, match="no pixels"):
        Qwen2VL(NOWHERE, {}, {}).image_tokens(0, 10)


def test_the_front_half_is_free_of_torch(checkpoint: Path) -> None:
    program = (
        "import json, sys\n"
        "from easerve.models.registry import load_family\n"
        f"family = load_family({str(checkpoint)!r})\n"
        "counted = family.image_tokens(300, 400), family.context_length, family.image_token_id\n"
        "family.fingerprint()\n"
        "print(json.dumps([counted, [name for name in ('torch', 'transformers') if name in sys.modules]]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    counted, heavy = json.loads(done.stdout)
    family = load_family(str(checkpoint))
    assert counted == [family.image_tokens(300, 400), family.context_length, family.image_token_id]
    assert heavy == []


def test_fingerprints_tell_settings_apart(checkpoint: Path) -> None:
    family = load_family(str(checkpoint))
    again = type(family)(NOWHERE, family.config, dict(reversed(family.processor.items())))
    other = type(family)(NOWHERE, family.config, {**family.processor, "image_mean": [0.5, 0.5, 0.5]})
    assert family.fingerprint() == again.fingerprint()
    assert family.fingerprint() != other.fingerprint()
