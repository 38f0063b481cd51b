"""How large the built-in model is, where it starts from, and how its pictures are cut."""

from __future__ import annotations

from collections.abc import Mapping

from tokenizers import Tokenizer
from transformers import Qwen2_5_VLConfig
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from training.tokenizer import SPECIAL, VOCABULARY, special_id

PATCH, MERGE, FRAMES = 14, 2, 2  # pixels a side, patches a side of a cell, frames of a patch
FEWEST_PIXELS, MOST_PIXELS = 56 * 56, 196 * 196  # of a picture that is not resized
# Sections take the frequencies in order, time first: at the usual theta of 10000 rows and columns would hardly turn
# over a picture of six cells a side, and the language model could not see where a cell is.
MROPE_SECTION, ROPE_THETA = [4, 6, 6], 30.0
# About 1 / sqrt(width). With the usual 0.02 the language model does not learn to compare words in thousands of
# steps, and the encoder is three times slower in telling forms apart.
LANGUAGE_STD, VISION_STD = 0.08, 0.06
WIDTH = 160  # of the language model
CONTEXT = 4096  # tokens


def media_tokens(ids: Mapping[str, int]) -> dict[str, int]:
    """The fields of a configuration that say where media go in a prompt."""
    return {
        "image_token_id": ids["<|image_pad|>"],
        "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"],
        "vision_end_token_id": ids["<|vision_end|>"],
    }


def make_config(tokenizer: Tokenizer) -> Qwen2_5_VLConfig:
    ids = {name: special_id(tokenizer, name) for name in SPECIAL}
    return Qwen2_5_VLConfig(
        **media_tokens(ids),
        architectures=["Qwen2_5_VLForConditionalGeneration"],
        tie_word_embeddings=True,
        initializer_range=LANGUAGE_STD,
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": WIDTH,
            "num_hidden_layers": 4,
            "num_attention_heads": 5,  # heads of 32: a size that every engine's attention takes
            "num_key_value_heads": 5,
            "intermediate_size": 448,
            "max_position_embeddings": CONTEXT,
            "bos_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
            "pad_token_id": ids["<|endoftext|>"],
            "tie_word_embeddings": True,
            "initializer_range": LANGUAGE_STD,
            "use_sliding_window": False,
            "rope_parameters": {"rope_type": "default", "mrope_section": MROPE_SECTION, "rope_theta": ROPE_THETA},
        },
        vision_config={
            "depth": 4,
            "initializer_range": VISION_STD,
            "hidden_size": 128,
            "num_heads": 4,
            "intermediate_size": 352,
            "out_hidden_size": WIDTH,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": FRAMES,
            "window_size": 112,
            "fullatt_block_indexes": [1, 3],
        },
    )


def make_processor() -> Qwen2VLImageProcessorPil:
    return Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        merge_size=MERGE,
        temporal_patch_size=FRAMES,
        size={"shortest_edge": FEWEST_PIXELS, "longest_edge": MOST_PIXELS},
    )
