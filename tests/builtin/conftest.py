"""The built-in model behind the torch engine: many questions at once, greedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from transformers import AttentionInterface, AutoTokenizer

from easerve.builtin import model_path, scenes
from easerve.engine.base import NewSequence
from easerve.engine.torch.attention import paged_attention
from easerve.engine.torch.engine import TorchEncoder, TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.models.base import PAGED_ATTENTION
from easerve.models.registry import load_family
from easerve.request import SamplingParams, TokenOutput

Answer = Callable[[Sequence[scenes.Example]], list[str]]


def prompt_of(tokenizer: object, question: str, pictures: int) -> list[int]:
    """Token ids with one placeholder per picture, by the folder's own chat template."""
    content = [{"type": "image"}] * pictures + [{"type": "text", "text": question}]
    ids: list[int] = tokenizer.apply_chat_template(  # type: ignore[attr-defined]
        [{"role": "user", "content": content}], add_generation_prompt=True, return_dict=False
    )
    return ids


@pytest.fixture(scope="session")
def answer() -> Answer:
    """Answers to examples, in order."""
    AttentionInterface.register(PAGED_ATTENTION, paged_attention)
    family = load_family(str(model_path()))
    tokenizer = AutoTokenizer.from_pretrained(model_path())
    encoder = TorchEncoder(family.load_encoder("cpu", None))
    engine = TorchLanguageModel(family.load_language_model("cpu", None), EngineOptions())

    def sequence(name: str, example: scenes.Example) -> NewSequence:
        pixels = [np.asarray(picture) for picture in example.pictures]
        embeddings = iter(encoder.encode(pixels) if pixels else [])
        prompt: list[int] = []
        media = []
        for token in prompt_of(tokenizer, example.question, len(pixels)):
            if token == family.image_token_id:
                embedding = next(embeddings)
                media.append((len(prompt), embedding))
                prompt += [token] * embedding.values.shape[0]
            else:
                prompt.append(token)
        return NewSequence(name, prompt, SamplingParams(max_tokens=64, temperature=0), media)

    def run(examples: Sequence[scenes.Example]) -> list[str]:
        tokens: dict[str, list[int]] = {str(index): [] for index in range(len(examples))}
        for index, example in enumerate(examples):
            engine.add(sequence(str(index), example))
        while engine.has_work():
            for output in engine.step():
                assert isinstance(output, TokenOutput)
                tokens[output.sequence_id].append(output.token_id)
        return [tokenizer.decode(ids, skip_special_tokens=True) for ids in tokens.values()]

    return run
