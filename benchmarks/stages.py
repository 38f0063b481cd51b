"""What each stage costs on the reference model, in CPU time of one thread: the least of several repeats.

python tools/make_reference_model.py --out runs/reference-model
OMP_NUM_THREADS=1 taskset -c 0 python benchmarks/stages.py --model runs/reference-model
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from random import Random

import numpy as np
import torch

from easerve.config import Deployment, model_folder
from easerve.engine.base import NewSequence
from easerve.engine.torch.engine import TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.models.registry import load_family
from easerve.request import SamplingParams

PICTURES = ((224, 1), (224, 2), (112, 1), (112, 4), (112, 10), (56, 1), (56, 10), (448, 1))  # pixels a side, in a batch
PROMPTS = (75, 203, 300)  # tokens
SEQUENCES = (1, 4, 8)  # decoded together
CONTEXT = 240  # tokens before a decode step

Seconds = float


def least(repeats: int, once: Callable[[], Seconds]) -> Seconds:
    """After one that does not count."""
    once()
    return min(once() for _ in range(repeats))


def timed(work: Callable[[], object]) -> Seconds:
    started = time.process_time()
    work()
    return time.process_time() - started


class Stages:
    """The model's two halves, as a worker has them."""

    def __init__(self, model: str) -> None:
        family = load_family(model_folder(Deployment(model=model)))
        self._encoder = family.load_encoder("cpu", None)
        part = family.load_language_model("cpu", None)
        self._engine = TorchLanguageModel(part, EngineOptions())
        self._vocabulary = part.vocab_size
        self._numbers = count()
        self._rng = Random(0)

    def encode(self, side: int, batch: int) -> Seconds:
        rng = np.random.default_rng(next(self._numbers))
        pictures = [rng.integers(0, 256, (side, side, 3), dtype=np.uint8) for _ in range(batch)]
        return timed(lambda: self._encoder.encode(pictures))

    def prefill(self, tokens: int) -> Seconds:
        self._add(tokens, 1)
        return timed(self._engine.step)

    def decode(self, sequences: int) -> Seconds:
        for _ in range(sequences):
            self._add(CONTEXT, 3)
        self._engine.step()
        seconds = timed(self._engine.step)
        while self._engine.has_work():
            self._engine.step()
        return seconds

    def _add(self, tokens: int, output: int) -> None:
        prompt = [self._rng.randrange(256) for _ in range(tokens)]
        sampling = SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True)
        self._engine.add(NewSequence(str(next(self._numbers)), prompt, sampling))


def cases(stages: Stages) -> Iterator[tuple[str, Callable[[], Seconds]]]:
    for side, batch in PICTURES:
        yield f"encode {side}x{side}, {batch} together", partial(stages.encode, side, batch)
    for tokens in PROMPTS:
        yield f"prefill {tokens} tokens", partial(stages.prefill, tokens)
    for sequences in SEQUENCES:
        yield f"decode step, {sequences} sequences", partial(stages.decode, sequences)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of the model, or 'builtin'")
    parser.add_argument("--repeats", type=int, default=10, help="the least of so many (default: 10)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: least(arguments.repeats, once) for name, once in cases(Stages(arguments.model))}
    if arguments.json:
        print(json.dumps(found, indent=1))
    else:
        for name, seconds in found.items():
            print(f"{name:28} {seconds * 1000:7.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
