"""Train the built-in model from scratch and write it as a Hugging Face folder.

    python tools/train_builtin_model.py --out src/easerve/builtin/model

Three stages, each of which makes the next one short: the language model learns to compare words on scenes told in
words; the encoder learns to call each cell of a picture by the words of what is there; then questions about pictures
are learnt in a few hundred steps, since pictures already look like words.

One row of a batch is a prompt prefix (one or two pictures, or none) and several independent question-and-answer
branches: each branch attends to the prefix and to itself only, at the positions it would have alone. So each picture
is encoded once for many questions, and the model still only ever sees single questions. Seeded; checkpoints every
few hundred steps and goes on from the last one with --resume.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.nn import functional
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from easerve.builtin import scenes

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>",
    "<|video_pad|>",
)  # fmt: skip
VOCABULARY = 640
PATCH, MERGE = 14, 2
# Sections take the frequencies in order, time first: at the usual theta of 10000 rows and columns would hardly turn
# over a picture of six cells a side, and the language model could not see where a cell is.
MROPE_SECTION, ROPE_THETA = [4, 6, 6], 30.0
# About 1 / sqrt(width). With the usual 0.02 the language model does not learn to compare words in thousands of
# steps, and the encoder is three times slower in telling forms apart.
LANGUAGE_STD, VISION_STD = 0.08, 0.06
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


# The folder around the weights


def make_tokenizer() -> Tokenizer:
    """A byte-level BPE over the words of the scenes: any text is accepted and comes back unchanged."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    rng = Random("vocabulary")
    corpus = [line for _ in range(3000) for line in _corpus_lines(rng)]
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    return tokenizer


def _corpus_lines(rng: Random) -> Iterator[str]:
    one, two = (scenes.random_scene(rng, held_out=False) for _ in range(2))
    questions = (
        scenes.about_one(one, rng, rng.choice(scenes.TRAINED)),
        scenes.about_two((one, two), rng, rng.choice(scenes.TRAINED)),
        scenes.small_sum(rng, held_out=False),
    )
    for question in questions:
        yield "user\n" + rephrase(question.text, rng)
        yield "assistant\n" + question.answer


def special_id(tokenizer: Tokenizer, name: str) -> int:
    token_id: int | None = tokenizer.token_to_id(name)
    assert token_id is not None, f"the tokenizer lacks {name}"
    return token_id


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
            "hidden_size": 160,
            "num_hidden_layers": 4,
            "num_attention_heads": 5,  # heads of 32: a size that every engine's attention takes
            "num_key_value_heads": 5,
            "intermediate_size": 448,
            "max_position_embeddings": 4096,
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
            "out_hidden_size": 160,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": [1, 3],
        },
    )


def make_processor() -> Qwen2VLImageProcessorPil:
    return Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        merge_size=MERGE,
        temporal_patch_size=2,
        size={"shortest_edge": 56 * 56, "longest_edge": 196 * 196},
    )


def write_folder(folder: Path, model: Qwen2_5_VLForConditionalGeneration, tokenizer: Tokenizer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    _write_json(
        folder / "tokenizer_config.json",
        {
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
            "model_max_length": 4096,
        },
    )
    processor = {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": "Qwen2_5_VLProcessor",
        "do_convert_rgb": True, "do_resize": True, "do_rescale": True, "do_normalize": True,
        "rescale_factor": 1 / 255,
        "resample": 3,
        "patch_size": PATCH, "merge_size": MERGE, "temporal_patch_size": 2,
        "min_pixels": 56 * 56, "max_pixels": 196 * 196,
        "size": {"shortest_edge": 56 * 56, "longest_edge": 196 * 196},
        "image_mean": list(map(float, make_processor().image_mean)),
        "image_std": list(map(float, make_processor().image_std)),
    }  # fmt: skip
    _write_json(folder / "preprocessor_config.json", processor)
    video = processor | {"video_processor_type": "Qwen2VLVideoProcessor", "min_frames": 2, "max_frames": 16}
    del video["image_processor_type"]
    _write_json(folder / "video_preprocessor_config.json", video)
    stop = [tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")]
    _write_json(
        folder / "generation_config.json",
        {"eos_token_id": stop, "pad_token_id": stop[1], "do_sample": False},
    )


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")


# Rows


def rephrase(text: str, rng: Random) -> str:
    """Half of the questions as people type them: a capital, no space before the mark, or no mark at all."""
    if rng.random() < 0.5:
        return text
    if rng.random() < 0.7:
        text = text[0].upper() + text[1:]
    return rng.choice((text, text[:-2] + text[-1], text[:-2]))


@dataclass
class Row:
    """A prefix (pictures, or a scene in words, or neither), and the branches that continue it: (question, answer)."""

    pictures: list[np.ndarray[Any, Any]]
    branches: list[tuple[str, str]]
    drawn: Sequence[scenes.Scene] = ()  # what the pictures show
    words: str = ""


class Rows:
    """Makes rows of training or held-out content."""

    def __init__(self, rng: Random, *, held_out: bool) -> None:
        self._rng = rng
        self._held_out = held_out

    def one(self, askers: Sequence[scenes.Asker]) -> Row:
        scene = self._scene()
        return self._row([scene], [scenes.about_one(scene, self._rng, ask) for ask in askers])

    def two(self, askers: Sequence[scenes.Asker]) -> Row:
        pair = (self._scene(), self._scene())
        return self._row(list(pair), [scenes.about_two(pair, self._rng, ask) for ask in askers])

    def told(self, askers: Sequence[scenes.Asker]) -> Row:
        """A scene in words: comparing words is soon learned, and pictures then only have to look like them."""
        scene = self._scene()
        row = self._row([], [scenes.about_one(scene, self._rng, ask) for ask in askers])
        row.words = scenes.describe(scene, "", self._rng).answer + " "
        return row

    def sums(self, branches: int) -> Row:
        return self._row([], [scenes.small_sum(self._rng, held_out=self._held_out) for _ in range(branches)])

    def longer_sums(self, branches: int) -> Row:
        return self._row([], [scenes.longer_sum(self._rng) for _ in range(branches)])

    def _scene(self) -> scenes.Scene:
        """Half of what is trained on has two colours only: a form is then not to be told by its colour."""
        few = not self._held_out and self._rng.random() < 0.5
        return scenes.random_scene(self._rng, held_out=self._held_out, colours=2 if few else len(scenes.COLOURS))

    def _row(self, drawn: Sequence[scenes.Scene], questions: Sequence[scenes.Question]) -> Row:
        rng = self._rng
        pictures = [np.asarray(scenes.draw(scene, scenes.random_size(rng), rng)) for scene in drawn]
        ask = (lambda text: text) if self._held_out else (lambda text: rephrase(text, rng))
        return Row(pictures, [(ask(question.text), question.answer) for question in questions], drawn)


@dataclass
class Batch:
    """Rows as tensors. `branch` numbers each token's branch (0: prefix, -1: padding), (rows, length)."""

    ids: torch.Tensor
    branch: torch.Tensor
    positions: torch.Tensor  # (3, rows, length)
    targets: torch.Tensor  # next token where it is part of an answer, else -100
    weights: torch.Tensor  # of the targets in the loss
    pixels: torch.Tensor | None
    grids: torch.Tensor | None


class CellNames:
    """What each cell of a picture is called: the words of the shape in its corner, or "nothing", and of the corner.

    A cell is a merged patch, the picture's piece that becomes one embedding. Trained to be close to its words, an
    embedding means to the language model what the words mean.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def targets(self, drawn: Sequence[scenes.Scene], grids: torch.Tensor) -> torch.Tensor:
        """(cells, vocabulary): a distribution over words for each cell of all pictures, in the encoder's order."""
        cells = [
            self._words(scene.at(place), place)
            for scene, (_, tall, wide) in zip(drawn, grids.tolist(), strict=True)
            for place in _cell_places(tall // MERGE, wide // MERGE)
        ]
        targets = torch.zeros(len(cells), VOCABULARY)
        for row, words in zip(targets, cells, strict=True):
            row[words] = 1 / len(words)
        return targets

    def _words(self, shape: scenes.Shape | None, place: str) -> list[int]:
        text = f" {shape.name} {place}" if shape else f" nothing {place}"
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


def _cell_places(rows: int, columns: int) -> Iterator[str]:
    for row in range(rows):
        for column in range(columns):
            vertical = "top" if 2 * row + 1 <= rows else "bottom"
            yield f"{vertical} {'left' if 2 * column + 1 <= columns else 'right'}"


class Collator:
    """Tokens, positions and masks for rows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._processor = make_processor()
        self._id: dict[str, int] = {name: special_id(tokenizer, name) for name in SPECIAL}

    def _text(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def __call__(self, rows: Sequence[Row]) -> Batch:
        pictures = [picture for row in rows for picture in row.pictures]
        pixels = grids = None
        if pictures:
            prepared = self._processor(images=pictures, return_tensors="pt")
            pixels, grids = prepared["pixel_values"], prepared["image_grid_thw"]
        grid = iter([] if grids is None else grids.tolist())
        built = [self._row(row, [next(grid) for _ in row.pictures]) for row in rows]
        length = max(len(ids) for ids, *_ in built)
        batch = Batch(
            torch.full((len(rows), length), self._id["<|endoftext|>"]),
            torch.full((len(rows), length), -1),
            torch.zeros((3, len(rows), length), dtype=torch.long),
            torch.full((len(rows), length), -100),
            torch.zeros((len(rows), length)),
            pixels,
            grids,
        )
        for index, (ids, branch, positions, targets, weights) in enumerate(built):
            batch.ids[index, : len(ids)] = torch.tensor(ids)
            batch.branch[index, : len(ids)] = torch.tensor(branch)
            batch.positions[:, index, : len(ids)] = torch.tensor(positions).T
            batch.targets[index, : len(ids)] = torch.tensor(targets)
            batch.weights[index, : len(ids)] = torch.tensor(weights)
        return batch

    def _row(
        self, row: Row, grids: list[list[int]]
    ) -> tuple[list[int], list[int], list[tuple[int, int, int]], list[int], list[float]]:
        ids, positions, start = self._prefix(grids, row.words)
        branch, targets, weights = [0] * len(ids), [-100] * len(ids), [0.0] * len(ids)
        for number, (question, answer) in enumerate(row.branches, 1):
            # The question's first token continues the prefix, as in a whole prompt.
            asked = [*self._text(question), self._id["<|im_end|>"], *self._text("\n")]
            asked += [self._id["<|im_start|>"], *self._text("assistant\n")]
            answered = [*self._text(answer), self._id["<|im_end|>"]]
            tokens = asked + answered
            ids += tokens[:-1]
            branch += [number] * (len(tokens) - 1)
            positions += [(start + i,) * 3 for i in range(len(tokens) - 1)]
            targets += [-100] * (len(asked) - 1) + answered
            # A long answer counts more than a short one, but less than by its length: yes and no would drown.
            weights += [0.0] * (len(asked) - 1) + [len(answered) ** -0.75] * len(answered)
        return ids, branch, positions, targets, weights

    def _prefix(self, grids: list[list[int]], words: str) -> tuple[list[int], list[tuple[int, int, int]], int]:
        ids = [self._id["<|im_start|>"], *self._text("user\n")]
        positions = [(i, i, i) for i in range(len(ids))]
        at = len(ids)
        start, pad, end = (self._id[name] for name in ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>"))
        for _, tall, wide in grids:
            rows, columns = tall // MERGE, wide // MERGE
            ids += [start, *[pad] * (rows * columns), end]
            positions.append((at, at, at))
            positions += [(at + 1, at + 1 + r, at + 1 + c) for r in range(rows) for c in range(columns)]
            at += 1 + max(rows, columns)
            positions.append((at, at, at))
            at += 1
        told = self._text(words)
        positions += [(at + i,) * 3 for i in range(len(told))]
        return ids + told, positions, at + len(told)


# Training


def branch_mask(branch: torch.Tensor) -> torch.Tensor:
    """(rows, 1, length, length) bool: causal, and only the prefix or the token's own branch."""
    length = branch.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    of_query, of_key = branch[:, :, None], branch[:, None, :]
    allowed = causal & ((of_key == 0) | (of_key == of_query)) & (of_key >= 0)
    return (allowed | torch.eye(length, dtype=torch.bool))[:, None]


def see(model: Qwen2_5_VLForConditionalGeneration, batch: Batch) -> torch.Tensor | None:
    """The embeddings of all pictures, (cells, width)."""
    if batch.pixels is None:
        return None
    return torch.cat(tuple(model.model.get_image_features(batch.pixels, batch.grids).pooler_output))


def forward(model: Qwen2_5_VLForConditionalGeneration, batch: Batch, media: torch.Tensor | None) -> torch.Tensor:
    """Logits of the target positions only, (targets, vocabulary)."""
    embeds = model.model.language_model.embed_tokens(batch.ids)
    if media is not None:
        where = (batch.ids == model.config.image_token_id)[..., None].expand_as(embeds)
        embeds = embeds.masked_scatter(where, media)
    hidden = model.model.language_model(
        inputs_embeds=embeds,
        position_ids=batch.positions,
        attention_mask={"full_attention": branch_mask(batch.branch)},
        use_cache=False,
    ).last_hidden_state
    logits: torch.Tensor = model.lm_head(hidden[batch.targets >= 0])
    return logits


def cell_loss(model: Qwen2_5_VLForConditionalGeneration, cells: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each cell's embedding, compared with the words' embeddings, against its words."""
    words = model.model.language_model.embed_tokens.weight.detach()
    return functional.cross_entropy(cells @ words.T, targets)


def answer_loss(model: Qwen2_5_VLForConditionalGeneration, batch: Batch, media: torch.Tensor | None) -> torch.Tensor:
    """Cross-entropy of the answers' tokens."""
    wanted = batch.targets >= 0
    each = functional.cross_entropy(forward(model, batch, media), batch.targets[wanted], reduction="none")
    return (each * batch.weights[wanted]).sum() / batch.weights.sum()


@torch.inference_mode()
def exact(model: Qwen2_5_VLForConditionalGeneration, collate: Collator, rows: list[Row]) -> list[bool]:
    """For each branch in order: would greedy decoding give exactly the answer? (It does iff each token is the most
    likely after the right ones.)"""
    right: list[bool] = []
    for start in range(0, len(rows), 16):
        batch = collate(rows[start : start + 16])
        hits = torch.zeros_like(batch.targets, dtype=torch.bool)
        wanted = batch.targets >= 0
        hits[wanted] = forward(model, batch, see(model, batch)).argmax(-1) == batch.targets[wanted]
        for index, row in enumerate(rows[start : start + 16]):
            for number in range(1, len(row.branches) + 1):
                own = wanted[index] & (batch.branch[index] == number)
                right.append(bool(hits[index][own].all()))
    return right


def evaluate(model: Qwen2_5_VLForConditionalGeneration, collate: Collator, amount: int) -> dict[str, float]:
    """Held-out exactness by skill."""
    model.eval()
    rows = Rows(Random("evaluation"), held_out=True)
    one = exact(model, collate, [rows.one(scenes.ASKERS) for _ in range(amount)])
    two = exact(model, collate, [rows.two(scenes.ASKERS) for _ in range(amount)])
    sums = exact(model, collate, [rows.sums(8) for _ in range(8)])
    told = exact(model, collate, [rows.told((scenes.is_there,)) for _ in range(amount)])
    model.train()
    scores = {kind: _mean(one[i::4]) for i, kind in enumerate(("count", "where", "is there", "describe"))}
    return scores | {"one": _mean(one), "two": _mean(two), "sum": _mean(sums), "told": _mean(told)}


def _mean(values: Sequence[bool]) -> float:
    return sum(values) / max(1, len(values))


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Warm-up, then a cosine down to nearly nothing."""
    return peak * min(1.0, step / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / steps))))


def stage_of(step: int, arguments: argparse.Namespace) -> str:
    """First words alone, then cells named by words, then everything together."""
    if step < arguments.words_first:
        return "words"
    return "cells" if step < arguments.words_first + arguments.cells_first else "together"


def train(arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    kept = arguments.out / "tokenizer.json"
    tokenizer = Tokenizer.from_file(str(kept)) if arguments.resume and kept.exists() else make_tokenizer()
    collate, names = Collator(tokenizer), CellNames(tokenizer)
    model = Qwen2_5_VLForConditionalGeneration(make_config(tokenizer))
    optimiser = torch.optim.AdamW(model.parameters(), lr=arguments.peak, betas=(0.9, 0.98), weight_decay=0.01)
    checkpoint, first = arguments.checkpoint, 0
    if arguments.resume and checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimiser.load_state_dict(saved["optimiser"])
        first = saved["step"]
    print(
        f"{sum(p.numel() for p in model.parameters()):,} parameters, vocabulary {tokenizer.get_vocab_size()}",
        flush=True,
    )
    write_folder(arguments.out, model, tokenizer)
    started, losses = time.monotonic(), []
    for step in range(first, arguments.steps):
        rows = Rows(Random(f"training {step}"), held_out=False)
        stage = stage_of(step, arguments)
        for group in optimiser.param_groups:
            group["lr"] = learning_rate(step, arguments.steps, arguments.peak)
        loss = torch.zeros(())
        if stage != "words":
            pictured = [rows.one(scenes.TRAINED) for _ in range(arguments.singles)]
            pictured += [rows.two((*scenes.TRAINED, scenes.is_there)) for _ in range(arguments.pairs)]
            batch = collate(pictured)
            cells = see(model, batch)
            assert cells is not None and batch.grids is not None
            targets = names.targets([scene for row in pictured for scene in row.drawn], batch.grids)
            loss = loss + cell_loss(model, cells, targets)
            if stage == "together":
                loss = loss + answer_loss(model, batch, cells)
        if stage != "cells":
            told = [rows.told(scenes.TRAINED[2:]) for _ in range(12 if stage == "words" else arguments.told)]
            loss = loss + (1.0 if stage == "words" else 0.3) * answer_loss(model, collate(told), None)
            sums = [rows.sums(8), rows.longer_sums(8), rows.longer_sums(8)]
            loss = loss + arguments.sums * answer_loss(model, collate(sums), None)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if (step + 1) % 50 == 0:
            rate = (step + 1 - first) / (time.monotonic() - started)
            print(
                f"step {step + 1}/{arguments.steps}  loss {np.mean(losses[-50:]):.4f}  {rate:.2f} steps/s", flush=True
            )
        if (step + 1) % arguments.every == 0 or step + 1 == arguments.steps:
            scores = evaluate(model, collate, 50)
            print("  held out: " + "  ".join(f"{kind} {score:.1%}" for kind, score in scores.items()), flush=True)
            write_folder(arguments.out, model, tokenizer)
            torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step + 1}, checkpoint)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    parser.add_argument("--steps", type=int, default=7400, help="optimiser steps (default: 7400)")
    parser.add_argument("--singles", type=int, default=3, help="one-picture rows a step (default: 3)")
    parser.add_argument("--pairs", type=int, default=7, help="two-picture rows a step (default: 7)")
    parser.add_argument("--told", type=int, default=2, help="rows a step with a scene in words (default: 2)")
    parser.add_argument("--words-first", type=int, default=800, help="steps of scenes in words only (default: 800)")
    parser.add_argument("--cells-first", type=int, default=600, help="then steps of naming cells (default: 600)")
    parser.add_argument("--sums", type=float, default=0.6, help="weight of sums in words (default: 0.6)")
    parser.add_argument("--peak", type=float, default=2e-3, help="peak learning rate (default: 2e-3)")
    parser.add_argument("--every", type=int, default=250, help="steps between evaluations (default: 250)")
    parser.add_argument("--threads", type=int, default=1, help="torch threads (default: 1)")
    parser.add_argument("--checkpoint", type=Path, default=Path("runs/builtin.pt"), help="where to keep the state")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    arguments = parser.parse_args()
    arguments.checkpoint.parent.mkdir(parents=True, exist_ok=True)
    train(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
