"""Write the reference model: what servers are measured with where no real weights are to be had.

    python tools/make_reference_model.py --out runs/reference-model

A Qwen2.5-VL of 50 million parameters in bfloat16, random from seed 0, as a complete Hugging Face folder that
transformers, EAServe and vLLM load. Small enough for a core, and large enough that encode, prefill and decode keep
their proportions: a picture of 224x224 costs about as much as a prompt of 250 tokens, and ten decode steps. What it
says means nothing; speed does not depend on that.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from training.folder import write_folder
from training.shape import MERGE, PATCH, media_tokens
from training.tokenizer import SPECIAL, make_tokenizer, special_id

SEED = 0
VOCABULARY = 1024
CONTEXT = 4096
WIDTH = 512
SIZE = {"shortest_edge": 56 * 56, "longest_edge": 896 * 896}  # pixels of a picture that is not resized


def reference_tokenizer() -> Tokenizer:
    """The built-in model's, filled up: every token the model can say has a text."""
    tokenizer = make_tokenizer()
    missing = range(tokenizer.get_vocab_size(), VOCABULARY)
    tokenizer.add_tokens([AddedToken(f"<|reserved_{number}|>") for number in missing])
    return tokenizer


def reference_config(tokenizer: Tokenizer) -> Qwen2_5_VLConfig:
    ids = {name: special_id(tokenizer, name) for name in SPECIAL}
    return Qwen2_5_VLConfig(
        **media_tokens(ids),
        architectures=["Qwen2_5_VLForConditionalGeneration"],
        tie_word_embeddings=True,
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "num_hidden_layers": 8,
            "num_attention_heads": 8,
            "num_key_value_heads": 2,
            "intermediate_size": 1536,
            "max_position_embeddings": CONTEXT,
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "rope_parameters": {"rope_type": "default", "mrope_section": [8, 12, 12], "rope_theta": 1e6},
        },
        vision_config={
            "depth": 12,
            "hidden_size": 384,
            "num_heads": 6,
            "intermediate_size": 1024,
            "out_hidden_size": WIDTH,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [3, 7, 11],
        },
    )


def reference_model(config: Qwen2_5_VLConfig) -> Qwen2_5_VLForConditionalGeneration:
    """Drawn in float32, so that the weights are the same on every machine, then rounded."""
    torch.manual_seed(SEED)
    return Qwen2_5_VLForConditionalGeneration(config).to(torch.bfloat16)


def write_reference(folder: Path) -> int:
    """Make the folder; returns the number of parameters."""
    tokenizer = reference_tokenizer()
    model = reference_model(reference_config(tokenizer))
    write_folder(folder, model, tokenizer)
    sizes = {"size": SIZE, "min_pixels": SIZE["shortest_edge"], "max_pixels": SIZE["longest_edge"]}
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        _amend(folder / name, sizes)
    _amend(folder / "tokenizer_config.json", {"model_max_length": CONTEXT})
    return sum(parameter.numel() for parameter in model.parameters())


def _amend(path: Path, fields: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    arguments = parser.parse_args()
    print(f"{write_reference(arguments.out):,} parameters in {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
