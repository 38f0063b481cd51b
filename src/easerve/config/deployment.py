"""The fields of a deployment. Each is an option of the command and a key of the deployment file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from easerve.config.entry import WorkerEntry
from easerve.engine.partition.options import PartitionName, PartitionOptions
from easerve.engine.vllm.arguments import as_pairs, parse_arguments
from easerve.media.options import MediaOptions
from easerve.policy.batching import BatchOptions
from easerve.transfer.base import TransferName

Topology = Literal["aggregated", "colocated", "e-pd", "e-p-d", "easerve"]
SHAPE = ("topology", "encoders", "prefillers", "decoders")  # the fields that a list of workers stands for
Batching = Literal["gap", "greedy", "count", "age", "control_limit", "smdp"]
BUILTIN = "builtin"
STEP_TOKENS = 2048  # in one engine step, where nothing else is said


def _option(group: str, default: Any, help_text: str, **bounds: Any) -> Any:
    """A field that is also a command-line option; `group` is where `--help` shows it."""
    return Field(default=default, description=help_text, json_schema_extra={"group": group}, **bounds)


class Deployment(BaseModel):
    """Everything `easerve serve` can be told. Times are seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    model: str = _option("Model", BUILTIN, "Folder in Hugging Face layout, hub id, or 'builtin'.")
    revision: str | None = _option("Model", None, "Branch, tag or commit of a hub model (default: its main branch).")
    served_model_name: str | None = _option("Model", None, "Name clients use (default: the value of --model).")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = _option("Model", "auto", "auto: the checkpoint's own.")
    max_model_len: int | None = _option(
        "Model", None, "Longest prompt plus answer, in tokens (default: the model's).", ge=8
    )

    topology: Topology = _option(
        "Topology",
        "colocated",
        "aggregated: one worker does all; colocated: encode beside prefill/decode on each device; e-pd, e-p-d: each "
        "on devices of its own; easerve: e-p-d with local prefill beside encode.",
    )
    encoders: int = _option("Topology", 1, "Encode workers.", ge=1)
    prefillers: int = _option(
        "Topology", 1, "Prefill workers, where prefill and decode are apart; 0: decode workers prefill too.", ge=0
    )
    decoders: int = _option("Topology", 1, "Decode workers (prefill/decode workers where one does both).", ge=1)
    device: Literal["auto", "cpu", "cuda"] = _option("Topology", "auto", "Where workers run.")
    placement: Literal["least_pending", "round_robin"] = _option(
        "Topology", "least_pending", "How a worker of a pool is chosen."
    )
    transfer: TransferName = _option(
        "Topology", "auto", "How embeddings and KV move between workers; auto: shared memory on one host."
    )
    workers: tuple[WorkerEntry, ...] = ()

    batching: Batching = _option("Encode", "greedy", "When queued media are encoded; greedy: when a worker is free.")
    encode_batch: int = _option("Encode", 8, "Most media items in one encode batch (the bound B).", ge=1)
    encode_tokens: int | None = _option(
        "Encode",
        None,
        "Most embedding tokens in one encode batch (default: 128 on CPUs without --encode-batch, else any).",
        ge=1,
    )
    gap_factor: float = _option(
        "Encode", 1.0, "gap: hold till no item came for so many mean gaps between arrivals (c).", ge=0, le=2
    )
    age_cap: float = _option("Encode", 0.05, "Longest any rule holds an item, in seconds (A).", ge=0)
    age_window: float = _option(
        "Encode", 1.0, "age: hold the oldest item for so many mean gaps between arrivals (a).", ge=0
    )
    control_limit: int = _option("Encode", 2, "control_limit: hold till so many items wait (M).", ge=1)
    device_price: float = _option(
        "Encode", 0.0, "smdp: items that might as well wait a second, for a second of the device (w).", ge=0
    )
    arrival_rate: float | None = _option("Encode", None, "Media items a second to start the estimate from.", gt=0)
    max_encode_queue: int = _option("Encode", 4096, "Most media items waiting for encode; more are shed.", ge=1)
    embedding_cache_gb: float = _option("Encode", 0.5, "Size of the embedding cache in host memory; 0: none.", ge=0)
    frontend_decoding: bool = _option(
        "Encode", True, "Fetch and decode media in the front end; if not, encode workers do."
    )

    offload: Literal["deficit", "token_deficit", "none"] = _option(
        "Prefill", "deficit", "Where media requests are prefilled when encode workers can too; none: always remote."
    )
    remote_ratio: float = _option("Prefill", 0.5, "Share of them prefilled in the remote pool (s).", ge=0, le=1)

    partition: PartitionName = _option(
        "Partition",
        "none",
        "How encode and the prefill beside it share a device. dynamic: each encode batch gets the smallest safe part, "
        "prefill the rest, and all between batches; static: fixed parts; none: both run on all of it; auto: dynamic "
        "where the device can be split, else none.",
    )
    partition_share: float = _option("Partition", 0.5, "static: the part of the device for encode.", gt=0, lt=1)
    partition_slack: float = _option(
        "Partition", 0.1, "dynamic: how much longer than on the whole device an encode batch may take (eps).", ge=0
    )
    partition_table: Path | None = _option(
        "Partition", None, "dynamic: a profile of the device and model (default: measured at start)."
    )

    engine: Literal["auto", "torch", "vllm", "timed"] = _option(
        "Engine",
        "auto",
        "What generates; auto: vLLM on CUDA devices where it is installed, else torch. timed: nothing; workers just "
        "take the time that other devices would (--engine-args hardware=a100).",
    )
    engine_args: tuple[str, ...] = _option(
        "Engine",
        (),
        "Option of vLLM's own as key=value, in its names; may be given several times (a mapping in a file). "
        "For timed: hardware, tp, precision, profile.",
    )
    kv_cache_gb: float | None = _option("Engine", None, "Size of the KV pool (default: by device and model).", gt=0)
    max_batched_tokens: int | None = _option(
        "Engine", None, "Most tokens in one engine step (default: 256 for the torch engine on CPUs, else 2048).", ge=16
    )
    prefix_cache: bool = _option(
        "Engine", True, "Keep the KV of what has been prefilled; prompts that begin like it start behind it."
    )
    max_sequences: int = _option("Engine", 64, "Most sequences decoded together.", ge=1)

    slo_ttft: float | None = _option("Objectives", None, "Time to first token wanted, in seconds.", gt=0)
    slo_tpot: float | None = _option("Objectives", None, "Time per output token wanted, in seconds.", gt=0)

    api_keys: tuple[str, ...] = _option("Limits", (), "Keys that requests must carry one of (default: none asked for).")
    limit_images: int = _option("Limits", 16, "Most images in one request.", ge=0)
    max_requests: int = _option("Limits", 1024, "Most requests in flight; more are answered 429.", ge=1)
    max_body_mb: float = _option("Limits", 64.0, "Largest request body, in MiB.", gt=0)
    request_timeout: float = _option("Limits", 120.0, "Longest wait for any one stage, in seconds.", gt=0)
    startup_timeout: float = _option("Limits", 300.0, "Longest wait for the workers to load, in seconds.", gt=0)
    drain_timeout: float = _option("Limits", 30.0, "Longest wait for running requests at a stop, in seconds.", ge=0)
    heartbeat_timeout: float = _option(
        "Limits", 5.0, "Silence after which a worker counts as stalled; four times as long if it gets no core.", ge=1
    )
    max_restarts: int = _option("Limits", 10, "Deaths in a row after which a worker is given up; 0: no restart.", ge=0)

    allowed_local_media_path: Path | None = _option(
        "Media", None, "Folder that file:// URLs may read from (default: none)."
    )
    allowed_media_domains: tuple[str, ...] = _option(
        "Media", (), "Hosts that media may be fetched from, private ones included (default: any public host)."
    )
    media_timeout: float = _option("Media", 10.0, "Longest fetch of one media item, in seconds.", gt=0)
    max_media_mb: float = _option("Media", 50.0, "Largest media file, in MiB.", gt=0)

    @field_validator("engine_args", mode="before")
    @classmethod
    def _as_pairs(cls, given: Any) -> Any:
        return as_pairs(given) if isinstance(given, Mapping) else given

    @field_validator("engine_args")
    @classmethod
    def _are_for_vllm(cls, pairs: tuple[str, ...]) -> tuple[str, ...]:
        parse_arguments(pairs)
        return pairs

    @property
    def partition_options(self) -> PartitionOptions:
        """Where nothing is ever prefilled beside encode there is nothing to share."""
        alone = self.offload == "none" or self.remote_ratio == 1
        return PartitionOptions(
            name="none" if alone else self.partition,
            share=self.partition_share,
            slack=self.partition_slack,
            table=None if self.partition_table is None else str(self.partition_table),
            largest_batch=self.encode_batch,
        )

    @property
    def media(self) -> MediaOptions:
        return MediaOptions(
            fetch_timeout_s=self.media_timeout,
            max_bytes=int(self.max_media_mb * 2**20),
            allowed_local_path=self.allowed_local_media_path,
            allowed_domains=self.allowed_media_domains,
        )

    @property
    def batch_options(self) -> BatchOptions:
        return BatchOptions(
            gap_factor=self.gap_factor,
            age_cap=self.age_cap,
            age_window=self.age_window,
            minimum=self.control_limit,
            device_price=self.device_price,
            max_items=self.encode_batch,
        )
