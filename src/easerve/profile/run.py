"""Measures the stages of a model on a device, into a profile."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import torch

from easerve.costs.pictures import picture_size
from easerve.costs.profile_file import Machine, Model, Profile, ServerTime
from easerve.costs.shapes.find import find_shape
from easerve.costs.shapes.language import ACTIVATION
from easerve.engine.choice import EngineName
from easerve.engine.partition.document import model_name
from easerve.engine.partition.opening import hardware_name
from easerve.engine.torch.options import EngineOptions
from easerve.models.checkpoint import read_json
from easerve.profile.encode import encode_times
from easerve.profile.generate import Generating
from easerve.profile.plan import STAGES, Plan, Stage
from easerve.profile.timing import Stopwatch
from easerve.profile.transfer import transfer_kind, transfer_times
from easerve.workers.loading import Engines, load_engines
from easerve.workers.spec import Device, StageName, WorkerSpec, bind_to_cores, cuda_environment

Report = Callable[[Stage, Any], None]  # told of each point as it is measured


def run_profile(
    folder: Path,
    device: Device,
    *,
    stages: Collection[Stage] = STAGES,
    plan: Plan | None = None,
    dtype: str = "auto",
    engine: EngineName = "torch",
    transfer: str = "auto",
    report: Report = lambda stage, point: None,
) -> Profile:
    """Those of `stages`; others have no times in the result. Binds this process to the device, and needs its engines
    to itself. Raises StartupError for a model, device or transfer that does not serve.
    """
    plan = plan or Plan()
    bind(device)
    bench = _Bench(folder, device, plan, stages, dtype, engine, transfer)
    times: dict[Stage, list[Any]] = {stage: [] for stage in STAGES}
    for stage in (one for one in STAGES if one in stages):
        for point in bench.points(stage):
            times[stage].append(point)
            report(stage, point)
    shape, wide = find_shape(str(folder)), _element_bytes(folder, dtype) // ACTIVATION
    return Profile(
        machine=Machine(hardware_name(torch.device(device.torch_name)), str(device), str(torch.__version__)),
        model=Model(model_name(folder), shape.parameters, dtype),
        kv_bytes_per_token=shape.language.kv_bytes_per_token * wide,
        embedding_bytes_per_token=shape.embedding_bytes_per_token * wide,
        kv_tokens=bench.pool,
        transfer_kind=bench.transfer,
        encode=tuple(times["encode"]),
        prefill=tuple(times["prefill"]),
        decode=tuple(times["decode"]),
        transfer=tuple(times["transfer"]),
    )


class _Bench:
    """Engines of the stages that are measured, and what measures them."""

    def __init__(
        self,
        folder: Path,
        device: Device,
        plan: Plan,
        stages: Collection[Stage],
        dtype: str,
        engine: EngineName,
        transfer: str,
    ) -> None:
        self._folder, self._plan = folder, plan
        self._watch = Stopwatch(device, plan.repeats)
        self._options = EngineOptions(max_batched_tokens=max(plan.new), max_sequences=max(plan.sequences))
        wanted = _worker_stages(stages)
        self._engines = Engines(None, None)
        if wanted:
            spec = WorkerSpec(
                name="profile", stages=wanted, device=device, model=str(folder), endpoint="", run_folder="",
                dtype=dtype, engine=self._options, engine_name=engine,
            )  # fmt: skip
            self._engines = load_engines(spec, lambda doing: None)
        self.transfer = transfer_kind(transfer) if "transfer" in stages else ""

    @property
    def pool(self) -> int:
        """Tokens that the engine's KV pool holds; 0 without one."""
        engine = self._engines.language_model
        return engine.stats().kv_blocks_total * self._options.block_size if engine else 0

    def points(self, stage: Stage) -> Iterator[Any]:
        if stage == "transfer":
            return transfer_times(self.transfer, self._plan)
        encoder, engine = self._engines.encoder, self._engines.language_model
        if stage == "encode":
            assert encoder is not None
            return encode_times(encoder, picture_size(str(self._folder)), self._plan, self._watch)
        assert engine is not None
        generating = Generating(engine, self._options.max_batched_tokens, self.pool, self._plan, self._watch)
        return generating.prefill_times() if stage == "prefill" else generating.decode_times()


def merged(old: Profile, new: Profile) -> Profile:
    """`new`, with what only `old` has a time of. Profiles of another machine or model have nothing to give."""
    if (old.machine, old.model) != (new.machine, new.model):
        return new
    gained = {stage: getattr(old, stage) for stage in STAGES if not getattr(new, stage)}
    return msgspec.structs.replace(
        new,
        kv_tokens=new.kv_tokens or old.kv_tokens,
        transfer_kind=new.transfer_kind or old.transfer_kind,
        slowdown=new.slowdown or old.slowdown,
        server=old.server if new.server == ServerTime() else new.server,
        **gained,
    )


def bind(device: Device) -> None:
    """Keep this process on the device."""
    os.environ.update(cuda_environment(device))
    if device.kind == "cpu":
        bind_to_cores(device)


def _worker_stages(stages: Collection[Stage]) -> tuple[StageName, ...]:
    """A language model does both of its stages."""
    encode: tuple[StageName, ...] = ("encode",) if "encode" in stages else ()
    return (*encode, "prefill", "decode") if {"prefill", "decode"} & set(stages) else encode


def _element_bytes(folder: Path, dtype: str) -> int:
    if dtype == "auto":
        config = read_json(folder / "config.json")
        dtype = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16")
    return int(getattr(torch, dtype).itemsize)
