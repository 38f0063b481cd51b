"""Tiny random checkpoints, made on the spot: every family here in well under a megabyte.

Weights are scaled so that greedy decoding wanders instead of repeating one token, and every bias and norm is random
too, so that a tensor that did not get loaded shows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

EOS, PAD, START, END = "<|im_end|>", "<|pad|>", "<|vision_start|>", "<|vision_end|>"
IMAGE, VIDEO, TURN = "<|image_pad|>", "<|video_pad|>", "<|im_start|>"
SPECIAL = (EOS, PAD, TURN, START, END, IMAGE, VIDEO)  # token ids from 256 on, after the bytes
IDS = {name: 256 + index for index, name in enumerate(SPECIAL)}
VOCABULARY = 264
MEAN, STD = [0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711]

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] in ('image', 'image_url') %}PICTURE{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tiny(family: str, folder: Path, seed: int = 0) -> Path:
    """Write a random checkpoint of `family` (a key of FAMILIES) into `folder`, with tokenizer and chat template."""
    config, processor, picture = FAMILIES[family]()
    folder.mkdir(parents=True, exist_ok=True)
    _save_model(config, folder, seed)
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    _save_tokenizer(folder, CHAT_TEMPLATE.replace("PICTURE", picture))
    return folder


def random_picture(height: int, width: int) -> np.ndarray:
    """Noise, the same for the same size."""
    generator = np.random.default_rng(height * 100_000 + width)
    return generator.integers(0, 256, (height, width, 3), dtype=np.uint8)


def _save_model(config: Any, folder: Path, seed: int) -> None:
    from transformers import AutoModelForImageTextToText

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                _randomise(name, parameter)
    model.generation_config.eos_token_id = IDS[EOS]
    model.generation_config.pad_token_id = IDS[PAD]
    model.save_pretrained(folder)


def _randomise(name: str, parameter: torch.Tensor) -> None:
    if parameter.ndim > 1 and "embed" not in name:
        parameter.normal_(0, 1.5 * parameter[0].numel() ** -0.5)
    elif "norm" in name and name.endswith("weight"):
        parameter.normal_(1, 0.1)
    else:
        # Small embeddings: with a tied head, what a token is must not drown what comes next.
        parameter.normal_(0, 0.1)


def _save_tokenizer(folder: Path, template: str) -> None:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    alphabet = {character: byte for byte, character in bytes_to_unicode().items()}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in SPECIAL])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS, pad_token=PAD)
    wrapped.chat_template = template
    wrapped.save_pretrained(folder)


def _text(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096,
        "eos_token_id": IDS[EOS], "bos_token_id": None, "pad_token_id": IDS[PAD], **more,
    }  # fmt: skip


def _qwen(name: str, patch: int, text: dict[str, Any], vision: dict[str, Any], tied: bool) -> Any:
    from transformers import AutoConfig

    config = AutoConfig.for_model(
        name, text_config=text, vision_config={"patch_size": patch, "spatial_merge_size": 2, **vision},
        image_token_id=IDS[IMAGE], video_token_id=IDS[VIDEO], vision_start_token_id=IDS[START],
        vision_end_token_id=IDS[END], tie_word_embeddings=tied,
    )  # fmt: skip
    factor = 2 * patch
    processor = {
        "image_processor_type": "Qwen2VLImageProcessor", "patch_size": patch, "merge_size": 2,
        "temporal_patch_size": 2, "size": {"shortest_edge": 4 * factor**2, "longest_edge": 64 * factor**2},
        "image_mean": MEAN, "image_std": STD,
    }  # fmt: skip
    return config, processor, START + IMAGE + END


_MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}


def qwen2_vl() -> Any:
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 2, "mlp_ratio": 2}
    return _qwen("qwen2_vl", 14, _text(rope_parameters=dict(_MROPE)), vision, tied=True)


def qwen2_5_vl() -> Any:
    vision = {
        "depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64,
        "window_size": 56, "fullatt_block_indexes": [1],
    }  # fmt: skip
    return _qwen("qwen2_5_vl", 14, _text(rope_parameters=dict(_MROPE)), vision, tied=False)


def qwen3_vl() -> Any:
    vision = {
        "depth": 3, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 64,
        "num_position_embeddings": 36, "deepstack_visual_indexes": [0, 1],
    }  # fmt: skip
    text = _text(head_dim=16, rope_parameters={**_MROPE, "mrope_interleaved": True})
    return _qwen("qwen3_vl", 16, text, vision, tied=True)


def _llava(name: str, tower: str, decoder: str, pinpoints: list[list[int]], **more: Any) -> Any:
    from transformers import AutoConfig

    vision = {
        "model_type": tower, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 2, "image_size": 56, "patch_size": 14,
    }  # fmt: skip
    config = AutoConfig.for_model(
        name, text_config={"model_type": decoder, **_text()}, vision_config={**vision, **more},
        image_token_index=IDS[IMAGE], image_grid_pinpoints=pinpoints, image_seq_length=16,
    )  # fmt: skip
    processor = {"image_mean": MEAN, "image_std": STD, "image_grid_pinpoints": pinpoints}
    return config, processor


def llava_next() -> Any:
    pinpoints = [[56, 112], [112, 56], [112, 112], [168, 56], [56, 168]]
    config, processor = _llava("llava_next", "clip_vision_model", "llama", pinpoints)
    size = {"size": {"shortest_edge": 56}, "crop_size": {"height": 56, "width": 56}}
    return config, {"image_processor_type": "LlavaNextImageProcessor", **size, **processor}, IMAGE + "\n"


def llava_onevision() -> Any:
    pinpoints = [[56 * rows, 56 * columns] for rows in range(1, 7) for columns in range(1, 7)]
    config, processor = _llava("llava_onevision", "siglip_vision_model", "qwen2", pinpoints, vision_use_head=False)
    size = {"size": {"height": 56, "width": 56}}
    return config, {"image_processor_type": "LlavaOnevisionImageProcessor", **size, **processor}, IMAGE + "\n"


FAMILIES: dict[str, Callable[[], Any]] = {
    "qwen2_vl": qwen2_vl,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen3_vl": qwen3_vl,
    "llava_next": llava_next,
    "llava_onevision": llava_onevision,
}
