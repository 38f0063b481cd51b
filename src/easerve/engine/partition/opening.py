"""Which implementation a device gets."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from easerve.engine.partition.base import Partition, Whole
from easerve.engine.partition.cores import CorePartition
from easerve.engine.partition.green import GreenDevice
from easerve.engine.partition.sms import SmPartition


def open_partition(device: torch.device, *, split: bool) -> Partition:
    """`device` in all the ways that it can be split, or never to be. Raises StartupError saying what splitting lacks.

    Of a CPU it is the cores that this process may use; one core cannot be split, which is no error: no `choices`.
    """
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.synchronize(index)  # makes the context that green ones belong to
        return SmPartition(torch.device("cuda", index), GreenDevice(index) if split else None)
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    return CorePartition(cores) if split and len(cores) > 1 else Whole("core", len(cores))


def hardware_name(device: torch.device) -> str:
    """What a profile is good for: the chip and how much of it there is."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return f"{properties.name}, {properties.multi_processor_count} SMs"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{_cpu_name()}, {cores} cores"


def _cpu_name() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "CPU")
