"""How a worker with encode beside local prefill shares its device between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from msgspec.structs import replace

from easerve.engine.partition.base import Partition, Whole
from easerve.engine.partition.document import ShareDocument, dtype_name, model_name
from easerve.engine.partition.engines import SharingEncoder, SharingLanguageModel
from easerve.engine.partition.opening import hardware_name, open_partition
from easerve.engine.partition.profiling import PICTURE_SIDE, measure_shares
from easerve.engine.partition.sharing import Sharing
from easerve.errors import StartupError
from easerve.policy.partition import Dynamic, EncodeProfile, Partitioning, SafeRange, Static, Unpartitioned
from easerve.workers.loading import Engines
from easerve.workers.messages import Heartbeat
from easerve.workers.spec import WorkerSpec

Report = Callable[[str], None]


class SharedDevice:
    """The engines of a worker, each on its part of the device, and what is told of that."""

    def __init__(self, engines: Engines, partition: Partition, rule: Partitioning, item_pixels: int) -> None:
        assert engines.encoder is not None and engines.language_model is not None
        self._sharing = Sharing(partition, rule, time.monotonic)
        self.engines = Engines(
            SharingEncoder(engines.encoder, self._sharing, item_pixels),
            SharingLanguageModel(engines.language_model, self._sharing),
        )

    def report(self, beat: Heartbeat) -> Heartbeat:
        """The heartbeat with the share encode had last, and the switches. Called from another thread."""
        sharing = self._sharing
        return replace(
            beat,
            encode_units=sharing.units,
            batches_apart=sharing.batches_apart,
            partition_switches=sharing.switches,
        )


def share_device(spec: WorkerSpec, engines: Engines, report: Report) -> SharedDevice:
    """Raises StartupError saying what the machine lacks for what was asked; `auto` does without and says why."""
    try:
        return _shared(spec, engines, report)
    except StartupError as error:
        if spec.partition.name != "auto":
            raise
        report(f"not partitioned: {error.message}")
        return _unpartitioned(spec, engines)


def _shared(spec: WorkerSpec, engines: Engines, report: Report) -> SharedDevice:
    options = spec.partition
    if options.name == "none":
        return _unpartitioned(spec, engines)
    if spec.engine_name != "torch":
        raise StartupError(f"{spec.engine_name} chooses its own threads and streams, which no partition can move")
    partition = open_partition(_device(spec), split=True)
    if options.name == "static":
        return SharedDevice(engines, partition, _static(options.share, partition), PICTURE_SIDE**2)
    if not partition.choices:
        report(f"one {partition.unit} cannot be split: not partitioned")
        return _unpartitioned(spec, engines)
    profile, side = _profile(spec, partition, engines, report)
    rule = Dynamic(profile, SafeRange(slack=options.slack))
    source = "measured now" if options.table is None else f"partition table {options.table}"
    report(f"{_told(rule, profile, partition)} ({source})")
    if rule.collapsed:
        partition.close()
        return _unpartitioned(spec, engines)
    return SharedDevice(engines, partition, rule, side**2)


def _unpartitioned(spec: WorkerSpec, engines: Engines) -> SharedDevice:
    own_ways = spec.engine_name != "torch"
    partition = Whole("core", len(spec.device.indices)) if own_ways else open_partition(_device(spec), split=False)
    return SharedDevice(engines, partition, Unpartitioned(), PICTURE_SIDE**2)


def _static(share: float, partition: Partition) -> Static:
    if not partition.choices:
        raise StartupError(f"one {partition.unit} cannot be split; give the worker more, or use --partition none")
    return Static(share * partition.whole, partition.choices)


def _profile(spec: WorkerSpec, partition: Partition, engines: Engines, report: Report) -> tuple[EncodeProfile, int]:
    """With the side of its pictures; from the table, or measured now."""
    if spec.partition.table is not None:
        path, folder = Path(spec.partition.table), Path(spec.model)
        document = ShareDocument.read(path)
        document.check(path, hardware_name(_device(spec)), model_name(folder), dtype_name(folder, spec.dtype))
        return document.times.profile(), document.side
    assert engines.encoder is not None and engines.language_model is not None
    largest = spec.partition.largest_batch
    times = measure_shares(partition, engines.encoder, engines.language_model, largest_batch=largest, report=report)
    return times.profile(), PICTURE_SIDE


def _told(rule: Dynamic, profile: EncodeProfile, partition: Partition) -> str:
    """Shares in words, as they are at low load."""
    if rule.collapsed:
        return f"no share of {partition.whole} {partition.unit}s is safe for encode: not partitioned"
    shares = (f"{items}: {rule.during(items) or 'all'}" for items in profile.batches)
    return f"{partition.unit}s of {partition.whole} for encode, by items: {', '.join(shares)}"


def _device(spec: WorkerSpec) -> torch.device:
    return torch.device(spec.device.torch_name)
