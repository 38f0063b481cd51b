"""One work of each stage, to be timed again and again: of sizes that say how fast a core is, not how a stage grows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path

import numpy as np

from easerve.engine.base import NewSequence
from easerve.engine.torch.options import EngineOptions
from easerve.profile.timing import Stopwatch
from easerve.request import SamplingParams
from easerve.workers.loading import load_engines
from easerve.workers.spec import Device, WorkerSpec

KINDS = ("encode", "prefill", "decode")
SIDE, PROMPT, SEQUENCES, ANSWER = 224, 256, 4, 512  # of a picture, in pixels; tokens; decoded together; tokens

Work = Callable[[], float]  # once; the seconds that it took
Works = Mapping[str, Work]  # by kind


def load_works(folder: Path, device: Device, dtype: str = "auto") -> Works:
    """Each has run once. They share an engine: a prefill ends the decoding, and the next decode begins a new one.

    Raises StartupError if the model does not load.
    """
    spec = WorkerSpec(
        name="profile", stages=("encode", "prefill", "decode"), device=device, model=str(folder), endpoint="",
        run_folder="", dtype=dtype, engine=EngineOptions(max_batched_tokens=SEQUENCES * PROMPT),
    )  # fmt: skip
    engines = load_engines(spec, lambda doing: None)
    encoder, engine, numbers = engines.encoder, engines.language_model, count()
    assert encoder is not None and engine is not None
    picture = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)
    watch = Stopwatch(device, repeats=1)

    def add(output: int) -> str:
        name = str(next(numbers))
        sampling = SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True)
        engine.add(NewSequence(name, [1 + k % 250 for k in range(PROMPT)], sampling))
        return name

    def encode() -> float:
        return watch.once(lambda: encoder.encode([picture]))

    def prefill() -> float:
        _drop(engine.abort, decoding)
        add(1)
        return watch.once(engine.step)

    def decode() -> float:
        if not engine.has_work():
            decoding[:] = [add(ANSWER) for _ in range(SEQUENCES)]
            engine.step()
        return watch.once(engine.step)

    decoding: list[str] = []
    works = {"encode": encode, "prefill": prefill, "decode": decode}
    for work in works.values():
        work()
    return works


def _drop(abort: Callable[[str], None], names: list[str]) -> None:
    while names:
        abort(names.pop())
