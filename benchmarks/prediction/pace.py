"""How much slower the machine is, from moment to moment of a run, than when it was profiled.

A virtual machine beside others changes its speed by tens of percent within seconds. So that a figure says how good the
simulation is, and not what the machine did meanwhile, probes time the same works while a profile is taken and
throughout each run, in what time its cores have left, and the simulation of the run goes at the pace they tell.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import fmean, pstdev

from easerve.config import Deployment, plan_workers
from easerve.profile.probe import Probe, probe
from easerve.profile.works import KINDS
from easerve.simulate.pace import Course
from easerve.workers.spec import Device

PERIOD = 0.6  # seconds between readings; each kind is read at every third
TOGETHER = 3  # readings of a kind that are averaged: about as long as the machine keeps its speed


@dataclass(frozen=True)
class Profiled:
    """A profile's file, and what probes read on its device while it was taken: mean seconds by kind of work, and their
    standard deviation as a part of it."""

    path: Path
    reference: Mapping[str, float]
    spread: Mapping[str, float]

    def write(self) -> None:
        told = {name: value for name, value in asdict(self).items() if name != "path"}
        _beside(self.path).write_text(json.dumps(told, indent=1), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Profiled:
        return cls(path, **json.loads(_beside(path).read_text(encoding="utf-8")))

    @staticmethod
    def there(path: Path) -> bool:
        return path.exists() and _beside(path).exists()


def _beside(path: Path) -> Path:
    return path.with_suffix(".probe.json")


@dataclass(frozen=True)
class Beat:
    """A reading: `seconds` of a kind of work, asked for at a `moment`."""

    moment: float
    kind: str
    seconds: float


@contextmanager
def probing(chosen: Deployment) -> Iterator[Probe]:
    """Probes on all devices of the workers; a reading is the mean of those on devices that do this kind of work.

    Raises StartupError if the model does not load.
    """
    devices: dict[Device, set[str]] = {}
    for plan in plan_workers(chosen):
        devices.setdefault(plan.device, set()).update(plan.stages)
    with ExitStack() as stack:
        probes = [(stack.enter_context(probe(Path(chosen.model), device)), kinds) for device, kinds in devices.items()]
        yield lambda kind: fmean(read(kind) for read, kinds in probes if kind in kinds)


@contextmanager
def watching(read: Probe) -> Iterator[list[Beat]]:
    """Reads each kind in turns while the block runs, in another thread; moments are of `time.monotonic`. Raises what a
    reading raises, at the end."""
    beats: list[Beat] = []
    stop = threading.Event()

    def watch() -> None:
        for kind in cycle(KINDS):
            moment = time.monotonic()
            beats.append(Beat(moment, kind, read(kind)))
            if stop.wait(PERIOD) and len(beats) >= len(KINDS):
                return

    with ThreadPoolExecutor(1) as pool:
        watched = pool.submit(watch)
        try:
            yield beats
        finally:
            stop.set()
        watched.result()


def since(begin: float, beats: Sequence[Beat]) -> list[Beat]:
    """With moments as seconds from then."""
    return [replace(beat, moment=beat.moment - begin) for beat in beats]


def course(beats: Sequence[Beat], reference: Mapping[str, float]) -> Course:
    """Of a run, as times of a profile with this reference."""
    points: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for beat in beats:
        points[beat.kind].append((beat.moment, beat.seconds / reference[beat.kind]))
    return Course({kind: _smooth(found) for kind, found in points.items()})


def _smooth(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    side = TOGETHER // 2
    near = [points[max(0, at - side) : at + side + 1] for at in range(len(points))]
    return [(moment, fmean(factor for _, factor in some)) for (moment, _), some in zip(points, near, strict=True)]


def words(beats: Sequence[Beat], reference: Mapping[str, float]) -> str:
    """The mean of each kind, and its standard deviation over the run."""
    factors = {kind: [one.seconds / reference[kind] for one in beats if one.kind == kind] for kind in KINDS}
    return ", ".join(f"{kind} {fmean(found):.2f} ± {pstdev(found):.2f}" for kind, found in factors.items())
