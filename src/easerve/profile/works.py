"""One work of each stage, to be timed again and again: of sizes that say how fast a core is, not how a stage grows.

Every time is of the same work: decode steps are those after the first behind keys and values that their sequences come
with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import numpy as np

from easerve.engine.base import KVState, LanguageModel, NewSequence, Prefilled
from easerve.engine.torch.options import EngineOptions
from easerve.profile.timing import Clock, Stopwatch
from easerve.request import SamplingParams
from easerve.workers.loading import load_engines
from easerve.workers.spec import Device, WorkerSpec

KINDS = ("encode", "prefill", "decode")
SIDE = 224  # of a picture, in pixels
SEQUENCES, STEPS = 4, 3  # decoded together; whose mean is the time of one
PROMPT = [1 + token % 250 for token in range(256)]

Work = Callable[[], float]  # once; the seconds that it took
Works = Mapping[str, Work]  # by kind


def load_works(folder: Path, device: Device, dtype: str = "auto", clock: Clock = time.perf_counter) -> Works:
    """Each has run once. Raises StartupError if the model does not load."""
    spec = WorkerSpec(
        name="profile", stages=("encode", "prefill", "decode"), device=device, model=str(folder), endpoint="",
        run_folder="", dtype=dtype, engine=EngineOptions(max_batched_tokens=len(PROMPT)),
    )  # fmt: skip
    engines = load_engines(spec, lambda doing: None)
    encoder, engine, numbers = engines.encoder, engines.language_model, count()
    assert encoder is not None and engine is not None
    picture = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    watch, kv = Stopwatch(device, repeats=1, clock=clock), _keys_and_values(engine)

    def encode() -> float:
        return watch.once(lambda: encoder.encode([picture]))

    def prefill() -> float:
        engine.add(NewSequence(str(next(numbers)), PROMPT, _answer(1)))
        return watch.once(engine.step)

    def decode() -> float:
        names = [str(next(numbers)) for _ in range(SEQUENCES)]
        for name in names:
            engine.add(NewSequence(name, PROMPT, _answer(3 + STEPS), produced=[1], kv=kv))
        engine.step()
        seconds = watch.once(lambda: [engine.step() for _ in range(STEPS)]) / STEPS
        for name in names:
            engine.abort(name)
        return seconds

    works = {"encode": encode, "prefill": prefill, "decode": decode}
    for work in works.values():
        work()
    return works


def _keys_and_values(engine: LanguageModel) -> KVState:
    """Of the prompt."""
    engine.add(NewSequence("prompt", PROMPT, _answer(2), stop_after="prefill"))
    (kv,) = [event.kv for event in engine.step() if isinstance(event, Prefilled)]
    return kv


def _answer(tokens: int) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
