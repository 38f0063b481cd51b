"""The folder itself: small, complete, accepted by transformers unchanged, and any text comes back as it was."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForImageTextToText, AutoTokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from easerve.builtin import model_path, scenes
from easerve.builtin.exam import Candidate


@cache
def tokenizer() -> object:
    return AutoTokenizer.from_pretrained(model_path())


def test_it_is_small() -> None:
    assert sum(file.stat().st_size for file in model_path().iterdir()) <= 16 * 2**20


@settings(max_examples=300, deadline=None)
@given(st.text())
def test_any_text_comes_back_as_it_was(text: str) -> None:
    ids = tokenizer()(text, add_special_tokens=False)["input_ids"]  # type: ignore[operator]
    assert tokenizer().decode(ids) == text  # type: ignore[attr-defined]


def test_the_template_takes_strings_and_parts() -> None:
    def text(content: object) -> str:
        messages = [{"role": "user", "content": content}]
        return str(tokenizer().apply_chat_template(messages, tokenize=False, add_generation_prompt=True))  # type: ignore[attr-defined]

    assert (
        text("hi")
        == text([{"type": "text", "text": "hi"}])
        == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    pictures = text(
        [{"type": "image"}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "hi"}]
    )
    assert pictures.count("<|vision_start|><|image_pad|><|vision_end|>") == 2


def test_transformers_alone_gives_the_engine_s_answers(candidate: Candidate) -> None:
    model = AutoModelForImageTextToText.from_pretrained(model_path()).eval()
    processor = Qwen2VLImageProcessorPil.from_pretrained(model_path())
    examples = scenes.held_out("one", 8, seed=4) + scenes.held_out("two", 4, seed=4) + scenes.held_out("sum", 2, seed=4)
    said = []
    for example in examples:
        ids, extra = candidate.prompt(example), {}
        if example.pictures:
            prepared = processor(images=[np.asarray(one) for one in example.pictures], return_tensors="pt")
            grids = iter(prepared["image_grid_thw"].prod(-1) // 4)
            pad = model.config.image_token_id
            ids = [token for one in ids for token in ([one] * int(next(grids)) if one == pad else [one])]
            kinds = (torch.tensor([ids]) == pad).int()
            extra = {**prepared, "mm_token_type_ids": kinds}
        with torch.inference_mode():
            out = model.generate(input_ids=torch.tensor([ids]), max_new_tokens=64, do_sample=False, **extra)
        said.append(tokenizer().decode(out[0, len(ids) :], skip_special_tokens=True))  # type: ignore[attr-defined]
    assert said == candidate.answer(examples)
