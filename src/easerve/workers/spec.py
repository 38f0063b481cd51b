"""What a worker is told at its start, and the device it runs on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Literal

import msgspec

from easerve.engine.choice import EngineName
from easerve.engine.partition.options import PartitionOptions
from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.media.options import MediaOptions
from easerve.transfer.base import TransferName

StageName = Literal["encode", "prefill", "decode"]
ProgressReport = Callable[[str, str], None]  # worker, what it is doing


class Device(msgspec.Struct, frozen=True):
    """A CUDA device, or a set of CPU cores (numbered among those this process may use)."""

    kind: Literal["cpu", "cuda"]
    indices: tuple[int, ...]

    @property
    def torch_name(self) -> str:
        """In the worker's own process, which sees no other CUDA device."""
        return "cpu" if self.kind == "cpu" else "cuda:0"

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(map(str, self.indices))}"


def parse_device(text: str) -> Device:
    """`cpu:0`, `cpu:0,1`, `cpu:0-3` or `cuda:1`. Raises StartupError for anything else, and for cores that are not
    there or named twice."""
    match = re.fullmatch(r"(cpu|cuda):(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)", text)
    if match is None:
        raise StartupError(f"device {text!r} is none; write cpu:0, cpu:0,1, cpu:0-3 or cuda:0")
    kind, listed = match.groups()
    indices: list[int] = []
    for part in listed.split(","):
        first, _, last = part.partition("-")
        if int(last or first) < int(first):
            raise StartupError(f"device {text!r}: {part} counts down; write {last}-{first}")
        indices += range(int(first), int(last or first) + 1)
    if kind == "cuda":
        if len(indices) != 1:
            raise StartupError(f"device {text!r}: a worker runs on one CUDA device")
        return Device("cuda", tuple(indices))
    if len(set(indices)) < len(indices):
        raise StartupError(f"device {text!r} names a core twice")
    if max(indices) >= (cores := len(usable_cores())):
        raise StartupError(f"device {text!r}: this process may use {cores} cores, numbered 0 to {cores - 1}")
    return Device("cpu", tuple(indices))


def usable_cores() -> list[int]:
    """Operating-system numbers of the cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cuda_environment(device: Device) -> dict[str, str]:
    """What makes a process see this CUDA device alone, as its first; nothing for cores. Devices are numbered among
    those this process sees."""
    if device.kind == "cpu":
        return {}
    index, seen = device.indices[0], os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return {"CUDA_VISIBLE_DEVICES": seen[index] if index < len(seen) and seen[index] else str(index)}


def bind_to_cores(device: Device) -> None:
    """Keep this process on a CPU device, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        cores = usable_cores()
        os.sched_setaffinity(0, {cores[index] for index in device.indices})


class WorkerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a worker process needs to know."""

    name: str
    stages: tuple[StageName, ...]
    device: Device
    model: str  # folder
    endpoint: str  # of the front end
    run_folder: str  # sockets and shared memory
    dtype: str
    engine: EngineOptions
    engine_name: EngineName = "torch"
    engine_args: tuple[str, ...] = ()  # for vLLM, key=value
    kv_travels: bool = False  # some worker of the deployment prefills and does not decode
    media: MediaOptions | None = None  # limits of the media it loads; None: it loads none
    transfer: TransferName = "auto"
    partition: PartitionOptions = PartitionOptions()  # of the device of a worker that encodes and prefills

    def to_json(self) -> str:
        return msgspec.json.encode(self, enc_hook=str).decode()

    @classmethod
    def from_json(cls, text: str) -> WorkerSpec:
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))

    @property
    def generates(self) -> bool:
        return "prefill" in self.stages or "decode" in self.stages

    @property
    def coresident(self) -> bool:
        """Encode beside local prefill: each has a thread of its own. A worker with all stages is the baseline that has
        one loop for everything."""
        return "encode" in self.stages and "prefill" in self.stages and "decode" not in self.stages
