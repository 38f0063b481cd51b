"""How much slower a stage is while another core of the machine is busy with a stage: they share caches and memory."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

import numpy as np

from easerve.costs.profile_file import Slowdown
from easerve.engine.base import NewSequence
from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.profile.run import bind
from easerve.request import SamplingParams
from easerve.workers.loading import load_engines
from easerve.workers.spec import Device, WorkerSpec, usable_cores

SIDE, PROMPT, SEQUENCES, ANSWER = 224, 256, 4, 512  # of a picture, in pixels; tokens; decoded together; tokens
KINDS = ("encode", "prefill", "decode")
ROUNDS, REPEATS = 3, 5
SETTLING = 0.3  # seconds until a neighbour is at its new work

Work = Callable[[], float]  # once; the seconds that it took


def other_core(device: Device) -> Device | None:
    """One that the device does not have, if there is one."""
    others = [core for core in range(len(usable_cores())) if core not in device.indices]
    return Device("cpu", (others[0],)) if others and device.kind == "cpu" else None


def measure_slowdowns(folder: Path, device: Device, neighbour: Device, dtype: str = "auto") -> list[Slowdown]:
    """Of each stage on `device` beside each on `neighbour`, times alone and beside in turn.

    This process is bound to the device meanwhile. Raises StartupError if the neighbour dies.
    """
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    with _neighbour(folder, neighbour, dtype) as tell, _bound(device):
        works = _works(folder, device, dtype)
        for _ in range(ROUNDS):
            for beside in ("", *KINDS):
                tell(beside)
                for kind, work in works.items():
                    seconds[kind, beside] += [work() for _ in range(REPEATS)]
    return [
        Slowdown(kind, beside, max(1.0, median(seconds[kind, beside]) / median(seconds[kind, ""])))
        for kind in KINDS
        for beside in KINDS
    ]


@contextmanager
def _bound(device: Device) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    bind(device)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _neighbour(folder: Path, device: Device, dtype: str) -> Iterator[Callable[[str], None]]:
    """A process on another core, and what tells it the kind of its work; none at first."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_keep_busy, args=(there, folder, device, dtype), daemon=True)
    process.start()
    there.close()  # so that its death is an end of file here

    def tell(kind: str) -> None:
        here.send(kind)
        time.sleep(SETTLING)
        if not process.is_alive():
            raise EOFError

    try:
        here.recv()
        yield tell
    except (EOFError, BrokenPipeError):
        raise StartupError(f"the process that keeps {device} busy has died; see above") from None
    finally:
        process.kill()
        process.join()


def _keep_busy(orders: Connection, folder: Path, device: Device, dtype: str) -> None:
    bind(device)
    works = _works(folder, device, dtype)
    orders.send("ready")
    while True:
        kind = orders.recv()
        while kind and not orders.poll():
            works[kind]()


def _works(folder: Path, device: Device, dtype: str) -> Mapping[str, Work]:
    spec = WorkerSpec(
        name="profile", stages=("encode", "prefill", "decode"), device=device, model=str(folder), endpoint="",
        run_folder="", dtype=dtype, engine=EngineOptions(max_batched_tokens=SEQUENCES * PROMPT),
    )  # fmt: skip
    engines = load_engines(spec, lambda doing: None)
    encoder, engine, numbers = engines.encoder, engines.language_model, count()
    assert encoder is not None and engine is not None
    picture = np.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)

    def add(output: int) -> str:
        name = str(next(numbers))
        sampling = SamplingParams(temperature=0.0, max_tokens=output, ignore_eos=True)
        engine.add(NewSequence(name, [1 + k % 250 for k in range(PROMPT)], sampling))
        return name

    def encode() -> float:
        return _seconds(lambda: encoder.encode([picture]))

    def prefill() -> float:
        _drop(engine.abort, decoding)
        add(1)
        return _seconds(engine.step)

    def decode() -> float:
        if not engine.has_work():
            decoding[:] = [add(ANSWER) for _ in range(SEQUENCES)]
            engine.step()
        return _seconds(engine.step)

    decoding: list[str] = []
    works = {"encode": encode, "prefill": prefill, "decode": decode}
    for work in works.values():
        work()
    return works


def _drop(abort: Callable[[str], None], names: list[str]) -> None:
    while names:
        abort(names.pop())


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
