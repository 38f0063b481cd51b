"""A deployment, typed: what is served, by which workers on which devices, and within which limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.media.options import MediaOptions
from easerve.workers.spec import Device, StageName, parse_device, usable_cores

Topology = Literal["colocated", "aggregated"]
BUILTIN = "builtin"


def _option(group: str, default: Any, help_text: str, **bounds: Any) -> Any:
    """A field that is also a command-line option; `group` is where `--help` shows it."""
    return Field(default=default, description=help_text, json_schema_extra={"group": group}, **bounds)


class Deployment(BaseModel):
    """Everything `easerve serve` can be told. Field names are the command's options."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str = _option("Model", BUILTIN, "Folder in Hugging Face layout, hub id, or 'builtin'.")
    served_model_name: str | None = _option("Model", None, "Name clients use (default: the value of --model).")
    dtype: str = _option("Model", "auto", "auto (the checkpoint's own), float32, bfloat16 or float16.")
    max_model_len: int | None = _option(
        "Model", None, "Longest prompt plus answer, in tokens (default: the model's).", ge=8
    )

    topology: Topology = _option(
        "Topology",
        "colocated",
        "colocated: encode and prefill/decode are processes of their own; aggregated: one does all.",
    )
    device: Literal["auto", "cpu", "cuda"] = _option("Topology", "auto", "Where workers run.")
    encode_device: str | None = _option("Topology", None, "Device of the encode worker, as cpu:0, cpu:0-3 or cuda:1.")
    generate_device: str | None = _option("Topology", None, "Device of the prefill/decode worker, likewise.")
    placement: str = _option("Topology", "least_pending", "How a prefill/decode worker is chosen.")

    batching: str = _option("Encode", "greedy", "When queued media are encoded; greedy: as soon as a worker is free.")
    encode_batch: int = _option("Encode", 8, "Most media items in one encode batch.", ge=1)

    kv_cache_gb: float | None = _option("Engine", None, "Size of the KV pool (default: by device and model).", gt=0)
    max_batched_tokens: int = _option("Engine", 2048, "Most tokens in one engine step.", ge=16)
    max_sequences: int = _option("Engine", 64, "Most sequences decoded together.", ge=1)

    limit_images: int = _option("Limits", 8, "Most images in one request.", ge=0)
    max_requests: int = _option("Limits", 1024, "Most requests in flight; more are answered 429.", ge=1)
    request_timeout: float = _option("Limits", 120.0, "Longest wait for any one stage, in seconds.", gt=0)
    startup_timeout: float = _option("Limits", 300.0, "Longest wait for the workers to load, in seconds.", gt=0)
    max_body_mb: float = _option("Limits", 64.0, "Largest request body, in MiB.", gt=0)

    allowed_local_media_path: Path | None = _option(
        "Media", None, "Folder that file:// URLs may read from (default: none)."
    )
    allowed_media_domains: tuple[str, ...] = _option(
        "Media", (), "Hosts that media may be fetched from, private ones included (default: any public host)."
    )
    media_timeout: float = _option("Media", 10.0, "Longest fetch of one media item, in seconds.", gt=0)
    max_media_mb: float = _option("Media", 50.0, "Largest media file, in MiB.", gt=0)

    @property
    def engine(self) -> EngineOptions:
        return EngineOptions(
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


def describe(deployment: Deployment) -> dict[str, str]:
    """The effective configuration in words, for the start of a server."""
    workers = [f"{plan.name}: {' + '.join(plan.stages)} on {plan.device}" for plan in plan_workers(deployment)]
    return {
        "model": f"{deployment.model} (served as {served_name(deployment)})",
        "topology": deployment.topology,
        "workers": "\n".join(workers),
        "encode": f"batching {deployment.batching}, at most {deployment.encode_batch} items a batch",
        "limits": f"{deployment.limit_images} images a request, {deployment.max_requests} requests in flight",
    }


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
