"""Examines the built-in model on held-out questions: greedy answers through the torch engine, exact or wrong.

python -m easerve.builtin.exam
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer

from easerve.builtin import model_path, scenes
from easerve.engine.base import NewSequence
from easerve.engine.torch.engine import TorchEncoder, TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.models.registry import load_family
from easerve.request import SamplingParams, TokenOutput

LONGEST_ANSWER = 64  # tokens


class Candidate:
    """The built-in model, ready to answer many questions at once."""

    def __init__(self) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model_path())
        self._family = load_family(str(model_path()))
        self._encoder = TorchEncoder(self._family.load_encoder("cpu", None))
        self._engine = TorchLanguageModel(self._family.load_language_model("cpu", None), EngineOptions())

    def prompt(self, example: scenes.Example) -> list[int]:
        """Token ids with one placeholder per picture, by the folder's own chat template."""
        content = [{"type": "image"} for _ in example.pictures] + [{"type": "text", "text": example.question}]
        ids: list[int] = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, return_dict=False
        )
        return ids

    def answer(self, examples: Sequence[scenes.Example]) -> list[str]:
        """Answers in order."""
        tokens: dict[str, list[int]] = {str(index): [] for index in range(len(examples))}
        for name, example in zip(tokens, examples, strict=True):
            self._engine.add(self._sequence(name, example))
        while self._engine.has_work():
            for output in self._engine.step():
                assert isinstance(output, TokenOutput), output
                tokens[output.sequence_id].append(output.token_id)
        return [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in tokens.values()]

    def _sequence(self, name: str, example: scenes.Example) -> NewSequence:
        pixels = [np.asarray(picture) for picture in example.pictures]
        embeddings = iter(self._encoder.encode(pixels) if pixels else [])
        ids: list[int] = []
        media = []
        for token in self.prompt(example):
            if token == self._family.image_token_id:
                embedding = next(embeddings)
                media.append((len(ids), embedding))
                ids += [token] * embedding.values.shape[0]
            else:
                ids.append(token)
        return NewSequence(name, ids, SamplingParams(max_tokens=LONGEST_ANSWER, temperature=0), media)


def shares_right(candidate: Candidate, examples: Sequence[scenes.Example]) -> dict[str, float]:
    """Exact answers by kind of question, as a share; "all" is over all questions."""
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for example, said in zip(examples, candidate.answer(examples), strict=True):
        by_kind[example.kind].append(said == example.answer)
        by_kind["all"].append(said == example.answer)
    return {kind: sum(right) / len(right) for kind, right in by_kind.items()}


def with_wrong_pictures(examples: Sequence[scenes.Example]) -> list[scenes.Example]:
    """The same questions, each about another's picture."""
    shifted = [*examples[len(scenes.ASKERS) :], *examples[: len(scenes.ASKERS)]]
    return [replace(example, pictures=other.pictures) for example, other in zip(examples, shifted, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=400, help="of each skill (default: 400)")
    parser.add_argument("--seed", type=int, default=1, help="which held-out questions (default: 1)")
    arguments = parser.parse_args()
    candidate = Candidate()
    papers = {kind: scenes.held_out(kind, arguments.questions, arguments.seed) for kind in ("one", "two", "sum")}
    papers["one, wrong picture"] = with_wrong_pictures(papers["one"])
    table = Table("skill", "exact", "by kind", title=f"{arguments.questions} held-out questions of each skill")
    for name, paper in papers.items():
        shares = shares_right(candidate, paper)
        kinds = ", ".join(f"{kind} {share:.1%}" for kind, share in shares.items() if kind != "all")
        table.add_row(name, f"{shares['all']:.1%}", kinds)
    Console().print(table)


if __name__ == "__main__":
    main()
