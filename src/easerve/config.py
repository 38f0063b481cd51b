"""A deployment, typed: what is served, by which workers on which devices, and within which limits."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from easerve.errors import StartupError
from easerve.media.options import MediaOptions
from easerve.workers.spec import Device, EngineSettings, StageName, parse_device, usable_cores

Topology = Literal["colocated", "aggregated"]
BUILTIN = "builtin"


class Deployment(BaseModel):
    """Everything `easerve serve` can be told. Field names are the command's options."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = BUILTIN
    served_model_name: str | None = None
    topology: Topology = "colocated"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    encode_device: str | None = None
    generate_device: str | None = None

    dtype: str = "auto"
    kv_cache_gb: float | None = Field(default=None, gt=0)
    max_model_len: int | None = Field(default=None, ge=8)
    max_batched_tokens: int = Field(default=2048, ge=16)
    max_sequences: int = Field(default=64, ge=1)

    batching: str = "greedy"
    encode_batch: int = Field(default=8, ge=1)
    placement: str = "least_pending"
    max_requests: int = Field(default=1024, ge=1)
    request_timeout: float = Field(default=120.0, gt=0)
    startup_timeout: float = Field(default=300.0, gt=0)

    limit_images: int = Field(default=8, ge=0)
    allowed_local_media_path: Path | None = None
    allowed_media_domains: tuple[str, ...] = ()
    media_timeout: float = Field(default=10.0, gt=0)
    max_media_mb: float = Field(default=50.0, gt=0)
    max_body_mb: float = Field(default=64.0, gt=0)

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)

    @property
    def engine(self) -> EngineSettings:
        return EngineSettings(
            dtype=self.dtype,
            kv_cache_bytes=None if self.kv_cache_gb is None else int(self.kv_cache_gb * 2**30),
            max_batched_tokens=self.max_batched_tokens,
            max_sequences=self.max_sequences,
            max_model_len=self.max_model_len,
        )

    @property
    def media(self) -> MediaOptions:
        return MediaOptions(
            fetch_timeout_s=self.media_timeout,
            max_bytes=int(self.max_media_mb * 2**20),
            allowed_local_path=self.allowed_local_media_path,
            allowed_domains=self.allowed_media_domains,
        )


class WorkerPlan(BaseModel):
    """One worker of a topology: its name, stages and device."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str
    stages: tuple[StageName, ...]
    device: Device


def plan_workers(deployment: Deployment) -> list[WorkerPlan]:
    """The workers of the deployment's topology on the devices there are.

    On a CPU, colocated halves the cores between encode and prefill/decode (with one core they share it), and
    aggregated takes them all. On CUDA all workers share the first device unless told otherwise.
    """
    if deployment.topology == "aggregated":
        device = _device(deployment.generate_device or deployment.encode_device, _whole(deployment))
        return [WorkerPlan(name="worker-0", stages=("encode", "generate"), device=device)]
    first, second = _halves(deployment)
    return [
        WorkerPlan(name="encode-0", stages=("encode",), device=_device(deployment.encode_device, first)),
        WorkerPlan(name="generate-0", stages=("generate",), device=_device(deployment.generate_device, second)),
    ]


def _device(text: str | None, default: Device) -> Device:
    return default if text is None else parse_device(text)


def _whole(deployment: Deployment) -> Device:
    if _uses_cuda(deployment):
        return Device("cuda", (0,))
    return Device("cpu", tuple(range(len(usable_cores()))))


def _halves(deployment: Deployment) -> tuple[Device, Device]:
    if _uses_cuda(deployment):
        return Device("cuda", (0,)), Device("cuda", (0,))
    cores = len(usable_cores())
    middle = max(1, cores // 2)
    return Device("cpu", tuple(range(middle))), Device("cpu", tuple(range(middle, cores)) or (0,))


def _uses_cuda(deployment: Deployment) -> bool:
    """`auto` takes CUDA for real models when a driver is there; the built-in model is happier on a CPU."""
    if deployment.device != "auto":
        return deployment.device == "cuda"
    return deployment.model != BUILTIN and Path("/proc/driver/nvidia/version").exists()


def model_folder(deployment: Deployment) -> str:
    """What to hand to the model registry."""
    if deployment.model != BUILTIN:
        return deployment.model
    from easerve.builtin import model_path

    folder = model_path()
    if not (folder / "config.json").exists():
        raise StartupError(f"the built-in model is missing from {folder}; reinstall the package")
    return str(folder)


def served_name(deployment: Deployment) -> str:
    """The name clients use."""
    return deployment.served_model_name or deployment.model
