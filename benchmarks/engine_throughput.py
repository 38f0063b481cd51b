"""The torch engine against a bare loop over the same transformers model: what scheduling, paging and sampling cost.

Both run in one process, on the same weights and thread count, turn by turn; what counts is the median of the rounds'
ratios (engine over bare, in tokens per second), not the absolute times. The bare loop has equal-length prompts, a
DynamicCache and argmax: no engine could do less.

    OMP_NUM_THREADS=1 python benchmarks/engine_throughput.py
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from easerve.builtin import model_path
from easerve.engine.base import NewSequence
from easerve.engine.torch.engine import TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.models.registry import load_family
from easerve.request import SamplingParams

TARGETS = {"decode": 0.7, "prefill": 0.8}
Timed = Callable[[], float]  # seconds of one round


@dataclass(frozen=True)
class Load:
    """Prompts of `prompt` tokens each, and decode steps that are timed."""

    sequences: int
    prompt: int
    steps: int

    def ids(self, vocabulary: int) -> list[list[int]]:
        generator = torch.Generator().manual_seed(0)
        rows: list[list[int]] = torch.randint(
            vocabulary // 2, (self.sequences, self.prompt), generator=generator
        ).tolist()
        return rows


class Bare:
    """transformers' text model and head, called as directly as possible."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForImageTextToText

        whole: Any = AutoModelForImageTextToText.from_pretrained(folder, attn_implementation="sdpa").eval()
        self._text = whole.model.language_model
        self._head = whole.lm_head

    @torch.inference_mode()
    def prefill(self, ids: list[list[int]]) -> float:
        started = time.perf_counter()
        self._forward(torch.tensor(ids), self._cache())
        return time.perf_counter() - started

    @torch.inference_mode()
    def decode(self, ids: list[list[int]], steps: int) -> float:
        cache = self._cache()
        tokens = self._forward(torch.tensor(ids), cache)
        started = time.perf_counter()
        for _ in range(steps):
            tokens = self._forward(tokens[:, None], cache)
        return time.perf_counter() - started

    def _forward(self, ids: torch.Tensor, cache: Any) -> torch.Tensor:
        hidden = self._text(input_ids=ids, past_key_values=cache, use_cache=True).last_hidden_state
        tokens: torch.Tensor = self._head(hidden[:, -1]).argmax(-1)
        tokens.tolist()
        return tokens

    def _cache(self) -> Any:
        from transformers import DynamicCache

        return DynamicCache(config=self._text.config)


class Ours:
    """The engine, with room for all tokens of the load in one step."""

    def __init__(self, folder: Path, load: Load) -> None:
        part = load_family(str(folder)).load_language_model("cpu", None)
        tokens = load.sequences * (load.prompt + load.steps + 2)
        self.vocabulary = part.vocab_size
        self._engine = TorchLanguageModel(
            part, EngineOptions(kv_cache_tokens=2 * tokens, max_batched_tokens=tokens, max_sequences=load.sequences)
        )

    def prefill(self, ids: list[list[int]]) -> float:
        with self._queued(ids, 2):
            return self._steps(1)

    def decode(self, ids: list[list[int]], steps: int) -> float:
        with self._queued(ids, steps + 2):
            self._engine.step()
            return self._steps(steps)

    def _steps(self, count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            self._engine.step()
        return time.perf_counter() - started

    @contextmanager
    def _queued(self, ids: list[list[int]], most: int) -> Iterator[None]:
        params = SamplingParams(max_tokens=most, temperature=0.0, ignore_eos=True)
        names = [str(number) for number in range(len(ids))]
        for name, prompt in zip(names, ids, strict=True):
            self._engine.add(NewSequence(name, prompt, params))
        yield
        for name in names:
            self._engine.abort(name)


def random_model(folder: Path, width: int, layers: int) -> Path:
    """A Qwen2.5-VL of random weights with a text model of this size; everything else as in the built-in model.

    Heads of 64 dimensions, four to a key head, and an MLP of three widths: 8, 2 and 1536 at the default width.
    """
    from transformers import AutoConfig, AutoModelForImageTextToText

    config = json.loads((model_path() / "config.json").read_text())
    heads = width // 64
    config["text_config"].update(
        hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads // 4, layer_types=["full_attention"] * layers, vocab_size=32_000,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [8, 12, 12]},
    )  # fmt: skip
    config["vision_config"]["out_hidden_size"] = width
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    AutoModelForImageTextToText.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    shutil.copy(model_path() / "preprocessor_config.json", folder)
    return folder


def compare(name: str, bare: Timed, ours: Timed, tokens: int, target: float, rounds: int) -> bool:
    """Print one line; whether the target holds."""
    bare(), ours()  # warm up
    pairs = [(bare(), ours()) for _ in range(rounds)]
    ratios = [alone / engine for alone, engine in pairs]
    ratio = statistics.median(ratios)
    speeds = [tokens / statistics.median(times) for times in zip(*pairs, strict=True)]
    print(
        f"{name:42} bare {speeds[0]:9.0f} tok/s   engine {speeds[1]:9.0f} tok/s   ratio {ratio:5.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f})   target {target}: {'met' if ratio >= target else 'MISSED'}"
    )
    return ratio >= target


def measure(title: str, folder: Path, load: Load, rounds: int) -> bool:
    """Decode and prefill of one model."""
    bare, ours = Bare(folder), Ours(folder, load)
    ids = load.ids(ours.vocabulary)
    shape = f"{load.sequences} x {load.prompt} tokens"
    decode = compare(
        f"{title}: decode after {shape}",
        lambda: bare.decode(ids, load.steps), lambda: ours.decode(ids, load.steps),
        load.sequences * load.steps, TARGETS["decode"], rounds,
    )  # fmt: skip
    prefill = compare(
        f"{title}: prefill of {shape}",
        lambda: bare.prefill(ids), lambda: ours.prefill(ids),
        load.sequences * load.prompt, TARGETS["prefill"], rounds,
    )  # fmt: skip
    return decode and prefill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=model_path(), help="a local checkpoint; default: the built-in")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--width", type=int, default=512, help="of the random model")
    parser.add_argument("--layers", type=int, default=8)
    chosen = parser.parse_args()
    load = Load(chosen.sequences, chosen.prompt, chosen.steps)
    print(f"measured on {torch.get_num_threads()} thread(s), torch {torch.__version__}, median of {chosen.rounds}")
    met = measure("built-in" if chosen.model == model_path() else chosen.model.name, chosen.model, load, chosen.rounds)
    with tempfile.TemporaryDirectory() as folder:
        random = random_model(Path(folder), chosen.width, chosen.layers)
        met &= measure(f"random {chosen.width}x{chosen.layers}", random, load, chosen.rounds)
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
