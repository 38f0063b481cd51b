"""A server's life: workers, pipeline and HTTP API, wired together and taken down in reverse."""

from __future__ import annotations

import asyncio
import gc
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from easerve.api.app import create_app
from easerve.api.backend import PictureLoader
from easerve.api.options import ApiOptions
from easerve.api.service import load_served_model
from easerve.config import (
    Deployment,
    WorkerPlan,
    encode_tokens,
    engine_of,
    engine_options,
    model_folder,
    plan_workers,
    problems,
    served_name,
)
from easerve.errors import StartupError
from easerve.heap import settle
from easerve.media import MediaLoader, PictureStore
from easerve.models.base import Family
from easerve.models.registry import load_family
from easerve.observe.metrics import RequestMetrics
from easerve.observe.stages import StageMetrics, StateCollector
from easerve.pipeline.pipeline import Pipeline
from easerve.policy.restart import RestartRule
from easerve.priority import before_workers
from easerve.server.http import Http, listening, serving, url_of
from easerve.server.states import collect_pipeline, collect_workers
from easerve.server.wiring import Staff, make_pipeline
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.choose import Transfers, make_transfer
from easerve.transfer.ledger import Ledger
from easerve.workers import run_folder
from easerve.workers.hub import Hub
from easerve.workers.messages import Ready
from easerve.workers.remote_pictures import PicturePool, RemotePictures
from easerve.workers.spec import ProgressReport, WorkerSpec
from easerve.workers.supervisor import Patience, Supervisor


@dataclass
class Server:
    """A running server."""

    url: str
    model: str
    pipeline: Pipeline
    supervisor: Supervisor
    ledger: Ledger
    transfer: Transfers
    ready: dict[str, Ready]
    http: Http

    async def ended(self) -> None:
        """Returns when the HTTP server has stopped by itself, which it does only on an error."""
        await asyncio.shield(self.http.task)


@asynccontextmanager
async def running(
    deployment: Deployment, on_progress: ProgressReport, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Server]:
    """Start a server and serve until the block ends; port 0 takes a free one.

    Raises StartupError with the reason if it cannot start.
    """
    if faults := problems(deployment):
        raise StartupError("\n".join(faults))
    if (readable := deployment.allowed_local_media_path) is not None and not readable.is_dir():
        raise StartupError(f"--allowed-local-media-path {readable} is no folder")
    plans = plan_workers(deployment)
    async with AsyncExitStack() as exits:
        exits.enter_context(before_workers())
        listener = exits.enter_context(listening(host, port))
        family = load_family(model_folder(deployment), deployment.revision)
        folder = run_folder.create()
        exits.callback(run_folder.remove, folder)
        hub = Hub(folder)
        exits.callback(hub.close)
        hub.start()
        transfer = make_transfer(deployment.transfer, folder, "front-end")
        exits.callback(transfer.close)
        ledger = Ledger(transfer)
        registry = CollectorRegistry()
        observer = StageMetrics(registry, deployment.slo_ttft, deployment.slo_tpot)
        pipeline = make_pipeline(
            deployment, ledger, observer, _room(transfer, folder), encode_tokens(deployment, plans)
        )
        pictures = PicturePool(deployment.request_timeout)
        specs = _specs(deployment, plans, family, hub, str(folder))
        supervisor = _supervisor(deployment, hub, ledger, Staff(pipeline, pictures), on_progress)
        states = StateCollector(registry)
        collect_pipeline(states, pipeline)
        collect_workers(states, supervisor, ledger, transfer)
        exits.push_async_callback(supervisor.stop)
        ready, served = await asyncio.gather(
            supervisor.start(specs),
            asyncio.to_thread(load_served_model, family, served_name(deployment)),
        )
        media: PictureLoader
        if deployment.frontend_decoding:
            loader = MediaLoader(deployment.media)
            exits.push_async_callback(loader.aclose)
            media = PictureStore(loader, ArrayStore(transfer), served.salt)
        else:
            media = RemotePictures(pictures, ledger, served.salt)
        app = create_app(
            model=served.within(_longest(ready)),
            pipeline=pipeline,
            media=media,
            buffers=ledger,
            metrics=RequestMetrics(registry),
            options=ApiOptions(
                limit_images=deployment.limit_images,
                max_body_bytes=int(deployment.max_body_mb * 2**20),
                api_keys=deployment.api_keys,
            ),
        )
        http = await exits.enter_async_context(serving(app, listener, deployment.drain_timeout))
        url = url_of(host, listener)
        settle()
        exits.callback(gc.unfreeze)
        yield Server(url, served.name, pipeline, supervisor, ledger, transfer, ready, http)


def _room(transfer: Transfers, folder: Path) -> int | None:
    """Bytes that are left where embeddings lie; None for no bound but the machine's."""
    return shutil.disk_usage(folder).free if transfer.kind == "shm" else None


def _supervisor(
    deployment: Deployment, hub: Hub, ledger: Ledger, staff: Staff, on_progress: ProgressReport
) -> Supervisor:
    return Supervisor(
        hub=hub,
        ledger=ledger,
        pools=staff,
        on_progress=on_progress,
        restart=RestartRule(most_in_a_row=deployment.max_restarts),
        patience=Patience(startup=deployment.startup_timeout, silence=deployment.heartbeat_timeout),
    )


def _specs(
    deployment: Deployment, plans: Sequence[WorkerPlan], family: Family, hub: Hub, folder: str
) -> list[WorkerSpec]:
    return [
        WorkerSpec(
            name=plan.name,
            stages=plan.stages,
            device=plan.device,
            model=str(family.folder),
            endpoint=hub.endpoint,
            run_folder=folder,
            dtype=deployment.dtype,
            engine=engine_options(deployment, plan),
            engine_name=engine_of(deployment, plan) or "torch",
            engine_args=deployment.engine_args,
            kv_travels=any("prefill" in other.stages and "decode" not in other.stages for other in plans),
            media=deployment.media if "encode" in plan.stages and not deployment.frontend_decoding else None,
            transfer=deployment.transfer,
            partition=deployment.partition_options,
        )
        for plan in plans
    ]


def _longest(ready: dict[str, Ready]) -> int:
    """Tokens of prompt and answer that every generating worker can hold."""
    return min(one.max_tokens_per_sequence for one in ready.values() if one.max_tokens_per_sequence)
