"""Prompts with pictures, and driving an engine to the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from easerve.engine.base import Event, KVState, NewSequence, Prefilled, SequenceFailed
from easerve.engine.torch.engine import TorchEncoder, TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.models.base import Embedding, EncoderPart, Family, LanguagePart
from easerve.models.registry import load_family
from easerve.request import SamplingParams, TokenOutput
from tests.tiny_models import random_picture

GREEDY = SamplingParams(max_tokens=12, temperature=0.0)
WORDS = list(range(40, 240, 7))  # bytes, of which all tiny models have tokens

Sizes = Sequence[tuple[int, int]]


@dataclass
class Parts:
    """A checkpoint, both halves loaded; embeddings are made once per size."""

    folder: Path
    family: Family
    encoder: EncoderPart
    language: LanguagePart
    made: dict[tuple[int, int], Embedding] = field(default_factory=dict)

    def engine(self, **options: Any) -> TorchLanguageModel:
        return TorchLanguageModel(self.language, EngineOptions(**{"kv_cache_tokens": 4096, **options}))

    def embedding(self, size: tuple[int, int]) -> Embedding:
        if size not in self.made:
            self.made[size] = TorchEncoder(self.encoder).encode([random_picture(*size)])[0]
        return self.made[size]

    def sequence(
        self, name: str, words: int, sizes: Sizes = (), sampling: SamplingParams = GREEDY, between: int = 1
    ) -> NewSequence:
        """`words` tokens of text, cut in two by pictures with `between` tokens after each."""
        prompt, media = WORDS[: words // 2], []
        for size in sizes:
            media.append((len(prompt), self.embedding(size)))
            prompt = prompt + [self.family.image_token_id] * self.family.image_tokens(*size) + WORDS[:between]
        return NewSequence(name, prompt + WORDS[words // 2 : words], sampling, media)


def load_parts(folder: Path) -> Parts:
    family = load_family(str(folder))
    return Parts(folder, family, family.load_encoder("cpu", None), family.load_language_model("cpu", None))


@dataclass
class Run:
    """What came out of an engine, by sequence."""

    tokens: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    outputs: dict[str, list[TokenOutput]] = field(default_factory=lambda: defaultdict(list))
    failures: dict[str, SequenceFailed] = field(default_factory=dict)
    handed: dict[str, KVState] = field(default_factory=dict)

    def take(self, events: Sequence[Event]) -> None:
        for event in events:
            assert event.sequence_id not in self.failures | self.handed, "something after the end"
            if isinstance(event, SequenceFailed):
                self.failures[event.sequence_id] = event
                continue
            assert not self.finished(event.sequence_id), "something after the last token"
            if isinstance(event, Prefilled):
                self.handed[event.sequence_id] = event.kv
                continue
            self.tokens[event.sequence_id].append(event.token_id)
            self.outputs[event.sequence_id].append(event)

    def finished(self, name: str) -> str | None:
        return self.outputs[name][-1].finish_reason if self.outputs[name] else None


def drive(
    engine: TorchLanguageModel,
    sequences: Sequence[NewSequence],
    arrivals: Mapping[str, int] | None = None,
    most_steps: int = 5000,
) -> Run:
    """Add each sequence before the step its arrival names (default: all at once), and step until none is left."""
    run, waiting = Run(), list(sequences)
    for step in range(most_steps):
        due = [one for one in waiting if (arrivals or {}).get(one.id, 0) <= step]
        waiting = [one for one in waiting if one not in due]
        for sequence in due:
            engine.add(sequence)
        if not engine.has_work() and not waiting:
            return run
        events = engine.step()
        assert events or not due or engine.has_work()
        run.take(events)
    raise AssertionError(f"not done after {most_steps} steps")


def mixed(parts: Parts) -> list[NewSequence]:
    """Text and pictures, greedy and drawn, of very different lengths."""
    drawn = SamplingParams(max_tokens=15, temperature=0.8, seed=7)
    return [
        parts.sequence("one token", 1),
        parts.sequence("text", 17),
        parts.sequence("picture", 6, [(70, 90)]),
        parts.sequence("two pictures", 9, [(60, 200), (64, 64)], between=0),
        parts.sequence("drawn", 12, [(64, 64)], drawn),
        NewSequence("long", WORDS * 5, drawn),
    ]


def prefilled(engine: TorchLanguageModel, sequences: Sequence[NewSequence]) -> tuple[Run, list[NewSequence]]:
    """Prefill and no more; what came out, and the sequences that go on as a decode worker gets them."""
    run = drive(engine, [replace(one, stop_after="prefill") for one in sequences])
    rest = [one for one in sequences if one.id in run.handed]
    return run, [
        NewSequence(one.id, one.prompt, one.sampling, produced=one.produced + run.tokens[one.id], kv=run.handed[one.id])
        for one in rest
    ]


def alone(parts: Parts, sequence: NewSequence, **options: Any) -> list[int]:
    """The sequence's tokens when it has an engine to itself."""
    return drive(parts.engine(**options), [sequence]).tokens[sequence.id]


def transformers_greedy(folder: Path, prompt: list[int], sizes: Sizes, most: int, placeholder: int) -> list[int]:
    """What transformers' own `generate` answers, the token that ends it included."""
    from transformers import AutoImageProcessor, AutoModelForImageTextToText

    model: Any = AutoModelForImageTextToText.from_pretrained(folder).eval()
    ids, inputs = torch.tensor([prompt]), {}
    if sizes:
        pictures = [random_picture(*size) for size in sizes]
        processor = AutoImageProcessor.from_pretrained(folder)
        inputs = dict(processor(images=pictures, input_data_format="channels_last", return_tensors="pt"))
        if "image_grid_thw" in inputs:
            inputs["mm_token_type_ids"] = (ids == placeholder).int()
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), **inputs, do_sample=False, max_new_tokens=most
        )
    answer: list[int] = out[0, len(prompt) :].tolist()
    return answer
