"""The checkpoint as a Hugging Face folder: what is written around the weights so that others can load them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import Qwen2_5_VLForConditionalGeneration

from training.shape import CONTEXT, FEWEST_PIXELS, FRAMES, MERGE, MOST_PIXELS, PATCH, make_processor

CHAT_TEMPLATE = """\
{%- for message in messages -%}
<|im_start|>{{ message['role'] }}
{% if message['content'] is string -%}
{{ message['content'] }}
{%- else -%}
{%- for part in message['content'] -%}
{%- if part['type'] in ('image', 'image_url') -%}
<|vision_start|><|image_pad|><|vision_end|>
{%- elif part['type'] in ('video', 'video_url') -%}
<|vision_start|><|video_pad|><|vision_end|>
{%- elif 'text' in part -%}
{{ part['text'] }}
{%- endif -%}
{%- endfor -%}
{%- endif -%}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""


def write_folder(folder: Path, model: Qwen2_5_VLForConditionalGeneration, tokenizer: Tokenizer) -> None:
    """Weights, tokenizer, chat template, and how to prepare media and when to stop."""
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    _write_json(folder / "tokenizer_config.json", _tokenizer_config())
    pictures = {"image_processor_type": "Qwen2VLImageProcessor"} | _media_config()
    _write_json(folder / "preprocessor_config.json", pictures)
    video = {"video_processor_type": "Qwen2VLVideoProcessor", "min_frames": 2, "max_frames": 16}
    _write_json(folder / "video_preprocessor_config.json", _media_config() | video)
    stop = [tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")]
    _write_json(
        folder / "generation_config.json",
        {"eos_token_id": stop, "pad_token_id": stop[1], "do_sample": False},
    )


def _tokenizer_config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "extra_special_tokens": {
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "vision_start_token": "<|vision_start|>",
            "vision_end_token": "<|vision_end|>",
        },
        "clean_up_tokenization_spaces": False,
        "model_max_length": CONTEXT,
    }


def _media_config() -> dict[str, Any]:
    """What pictures and video have in common."""
    processor = make_processor()
    return {
        "processor_class": "Qwen2_5_VLProcessor",
        "do_convert_rgb": True, "do_resize": True, "do_rescale": True, "do_normalize": True,
        "rescale_factor": 1 / 255,
        "resample": 3,
        "patch_size": PATCH, "merge_size": MERGE, "temporal_patch_size": FRAMES,
        "min_pixels": FEWEST_PIXELS, "max_pixels": MOST_PIXELS,
        "size": {"shortest_edge": FEWEST_PIXELS, "longest_edge": MOST_PIXELS},
        "image_mean": list(map(float, processor.image_mean)),
        "image_std": list(map(float, processor.image_std)),
    }  # fmt: skip


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")
