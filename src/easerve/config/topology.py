"""From a topology, or a list of workers, to workers on devices."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from easerve.config.deployment import BUILTIN, Deployment
from easerve.engine.choice import EngineName, choose_engine
from easerve.workers.spec import Device, StageName, parse_device, usable_cores

ALL: tuple[StageName, ...] = ("encode", "prefill", "decode")
E: tuple[StageName, ...] = ("encode",)
P: tuple[StageName, ...] = ("prefill",)
D: tuple[StageName, ...] = ("decode",)
PD: tuple[StageName, ...] = ("prefill", "decode")
EP: tuple[StageName, ...] = ("encode", "prefill")


@dataclass(frozen=True)
class WorkerPlan:
    """One worker: its name, stages and device."""

    name: str
    stages: tuple[StageName, ...]
    device: Device


def engine_of(deployment: Deployment, plan: WorkerPlan) -> EngineName | None:
    """What the worker generates with; None if it does not generate. Timed workers are timed whatever they do.

    Local prefill shares a process and a device with the encoder, which only the torch engine can; what it hands over
    is any decode worker's to take.
    """
    if deployment.engine == "timed":
        return "timed"
    if plan.stages == EP:
        return "torch"
    return None if plan.stages == E else choose_engine(deployment.engine, plan.device.kind)


def plan_workers(deployment: Deployment, cuda: int | None = None) -> list[WorkerPlan]:
    """The workers of a deployment: those it lists, or those of its topology on the devices there are, or on `cuda`
    CUDA devices.

    On CUDA each tier of a topology (encode, prefill, decode) has devices of its own as far as there are enough, and
    `colocated` and `aggregated` use every device for everything. On a CPU a device is a set of cores: the tiers share
    out the cores, and share a core where there are too few. So colocated and e-pd are the same there, with one device.
    """
    if deployment.workers:
        return list(_listed(deployment))
    tiers = _tiers(deployment)
    if cuda is None and _uses_cuda(deployment):
        cuda = cuda_devices()
    places = _cpu_places(tiers) if cuda is None else _cuda_places(deployment, tiers, cuda)
    names: Counter[str] = Counter()
    return [
        WorkerPlan(_name(stages, names), stages, device)
        for (stages, _), devices in zip(tiers, places, strict=True)
        for device in devices
    ]


Tier = tuple[tuple[StageName, ...], int]  # stages, workers


def _tiers(deployment: Deployment) -> list[Tier]:
    encoders, prefillers, decoders = deployment.encoders, deployment.prefillers, deployment.decoders
    generating: list[Tier] = [(P, prefillers), (D, decoders)] if prefillers else [(PD, decoders)]
    match deployment.topology:
        case "aggregated":
            return [(ALL, decoders)]
        case "colocated" | "e-pd":
            return [(E, encoders), (PD, decoders)]
        case "e-p-d":
            return [(E, encoders), *generating]
        case "easerve":
            return [(EP, encoders), *generating]


def _cpu_places(tiers: Sequence[Tier]) -> list[list[Device]]:
    """Cores in a row, an equal part to each tier, and within a tier to each worker."""
    cores = list(range(len(usable_cores())))
    return [[Device("cpu", tuple(part)) for part in _parts(own, tier[1])] for own, tier in _with_parts(cores, tiers)]


def _cuda_places(deployment: Deployment, tiers: Sequence[Tier], number: int) -> list[list[Device]]:
    devices = list(range(number))
    if deployment.topology in ("aggregated", "colocated"):
        return [[Device("cuda", (devices[k % len(devices)],)) for k in range(count)] for _, count in tiers]
    return [[Device("cuda", (own[k % len(own)],)) for k in range(tier[1])] for own, tier in _with_parts(devices, tiers)]


def _with_parts(things: list[int], tiers: Sequence[Tier]) -> Iterator[tuple[list[int], Tier]]:
    return zip(_parts(things, len(tiers)), tiers, strict=True)


def _parts(things: list[int], count: int) -> list[list[int]]:
    """`count` parts in a row; with too few things, neighbours share one."""
    size = len(things)
    return [things[k * size // count : (k + 1) * size // count] or [things[k * size // count]] for k in range(count)]


def cuda_devices() -> int:
    """How many this process may use; at least one, so that its lack is reported by the worker that needs it."""
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return len(visible.split(","))
    found = Path("/proc/driver/nvidia/gpus")
    return max(1, len(list(found.iterdir())) if found.is_dir() else 1)


def _uses_cuda(deployment: Deployment) -> bool:
    """`auto` takes CUDA for real models when a driver is there; the built-in model is happier on a CPU."""
    if deployment.device != "auto":
        return deployment.device == "cuda"
    return deployment.model != BUILTIN and Path("/proc/driver/nvidia/version").exists()


def _listed(deployment: Deployment) -> Iterator[WorkerPlan]:
    names: Counter[str] = Counter()
    for entry in deployment.workers:
        stages = tuple(stage for stage in ALL if stage in entry.stages)
        for k in range(entry.count):
            own = entry.name and (entry.name if entry.count == 1 else f"{entry.name}-{k}")
            yield WorkerPlan(own or _name(stages, names), stages, parse_device(entry.device))


def _name(stages: tuple[StageName, ...], taken: Counter[str]) -> str:
    """Numbered by kind: encode-0, prefill-0, decode-0, generate-0 for both, worker-0 for all three."""
    kind = {ALL: "worker", PD: "generate"}.get(stages, stages[0])
    taken[kind] += 1
    return f"{kind}-{taken[kind] - 1}"
