"""What a worker is made of: engines, the desks over them, and which thread's loop has which desks. Imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from easerve.transfer.arrays import ArrayStore
from easerve.transfer.choose import make_transfer
from easerve.workers.encoding import EncodeDesk
from easerve.workers.generating import GenerateDesk
from easerve.workers.loading import Engines, load_engines
from easerve.workers.media import MediaLoop
from easerve.workers.messages import Heartbeat
from easerve.workers.sharing import share_device
from easerve.workers.shelf import Shelf
from easerve.workers.spec import WorkerSpec
from easerve.workers.stage import Desk, Loop, Send, StageLoop

AT_HAND_BYTES = 256 * 2**20  # of embeddings that local prefill finds without a transfer


class Reporter(Protocol):
    """Has figures for heartbeats."""

    def report(self, beat: Heartbeat) -> Heartbeat:
        """The heartbeat with its figures. Called from another thread: reads counters only."""
        ...


@dataclass(frozen=True)
class Assembly:
    """`loops` by the names of their threads, each to be made in its own; the first is of the thread that assembles."""

    loops: Mapping[str, Callable[[Send], Loop]]
    reporters: Sequence[Reporter]  # besides the desks
    max_tokens_per_sequence: int  # 0 for a worker that does not generate


def assemble(spec: WorkerSpec, identity: str, progress: Callable[[str], None]) -> Assembly:
    """Loads what the worker needs. Raises StartupError with the reason if model, device or transfer do not serve."""
    engines = load_engines(spec, progress)
    reporters: list[Reporter] = []
    if spec.coresident:
        shared = share_device(spec, engines, progress)
        reporters.append(shared)
        engines = shared.engines
    transfer = make_transfer(spec.transfer, Path(spec.run_folder), identity)
    shelf = Shelf(transfer, spec.device.torch_name, AT_HAND_BYTES if spec.coresident else 0)
    reporters.append(shelf)
    loops = _stage_loops(spec, engines, ArrayStore(transfer), shelf)
    if (media := spec.media) is not None:
        loops["media"] = lambda send: MediaLoop(media, ArrayStore(transfer), send)
    return Assembly(loops, reporters, engines.max_tokens_per_sequence)


def _stage_loops(
    spec: WorkerSpec, engines: Engines, pictures: ArrayStore, shelf: Shelf
) -> dict[str, Callable[[Send], Loop]]:
    """One for all stages, or one each where prefill runs beside encode."""
    encoder, language_model = engines.encoder, engines.language_model

    def encode(send: Send) -> list[Desk]:
        return [] if encoder is None else [EncodeDesk(encoder, pictures, shelf, send)]

    def generate(send: Send) -> list[Desk]:
        return [] if language_model is None else [GenerateDesk(language_model, shelf, send)]

    if spec.coresident:
        return {"stage": lambda send: StageLoop(encode(send)), "prefill": lambda send: StageLoop(generate(send))}
    return {"stage": lambda send: StageLoop([*encode(send), *generate(send)])}
