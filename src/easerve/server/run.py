"""A server's life: workers, pipeline and HTTP API, wired together and taken down in reverse."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from easerve.api.app import create_app
from easerve.api.backend import PictureLoader
from easerve.api.options import ApiOptions
from easerve.api.service import load_served_model
from easerve.config import Deployment, encode_tokens, model_folder, plan_workers, problems, served_name
from easerve.errors import StartupError
from easerve.heap import settle
from easerve.media import MediaLoader, PictureStore
from easerve.models.registry import load_family
from easerve.observe.metrics import RequestMetrics
from easerve.observe.stages import StageMetrics
from easerve.pipeline.pipeline import Pipeline
from easerve.priority import before_workers
from easerve.server.http import Http, listening, serving, url_of
from easerve.server.lines import Lines, open_lines
from easerve.server.staffing import make_supervisor, worker_specs
from easerve.server.states import collect_states
from easerve.server.wiring import Staff, make_pipeline
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.choose import Transfers
from easerve.transfer.ledger import Ledger
from easerve.workers.messages import Ready
from easerve.workers.remote_pictures import PicturePool, RemotePictures
from easerve.workers.spec import ProgressReport
from easerve.workers.supervisor import Supervisor


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
    _check(deployment)
    plans, registry = plan_workers(deployment), CollectorRegistry()
    async with AsyncExitStack() as exits:
        exits.enter_context(before_workers())
        listener = exits.enter_context(listening(host, port))
        family = load_family(model_folder(deployment), deployment.revision)
        lines = exits.enter_context(open_lines(deployment.transfer))
        observer = StageMetrics(registry, deployment.slo_ttft, deployment.slo_tpot)
        tokens = encode_tokens(deployment, plans)
        pipeline = make_pipeline(deployment, lines.ledger, observer, lines.room(), tokens)
        pictures = PicturePool(deployment.request_timeout)
        supervisor = make_supervisor(deployment, lines, Staff(pipeline, pictures), on_progress)
        exits.push_async_callback(supervisor.stop)
        collect_states(registry, pipeline, supervisor, lines)
        ready, served = await asyncio.gather(
            supervisor.start(worker_specs(deployment, plans, family.folder, lines)),
            asyncio.to_thread(load_served_model, family, served_name(deployment)),
        )
        app = create_app(
            model=served.within(_longest(ready.values())),
            pipeline=pipeline,
            media=await exits.enter_async_context(_picture_loader(deployment, lines, pictures, served.salt)),
            buffers=lines.ledger,
            metrics=RequestMetrics(registry),
            options=_api_options(deployment),
        )
        http = await exits.enter_async_context(serving(app, listener, deployment.drain_timeout))
        settle()
        exits.callback(gc.unfreeze)
        url = url_of(host, listener)
        yield Server(url, served.name, pipeline, supervisor, lines.ledger, lines.transfer, ready, http)


def _check(deployment: Deployment) -> None:
    if faults := problems(deployment):
        raise StartupError("\n".join(faults))
    readable = deployment.allowed_local_media_path
    if readable is not None and not readable.is_dir():
        raise StartupError(f"--allowed-local-media-path {readable} is no folder")


@asynccontextmanager
async def _picture_loader(
    deployment: Deployment, lines: Lines, pictures: PicturePool, salt: bytes
) -> AsyncIterator[PictureLoader]:
    """The front end, or the encode workers: whoever decodes."""
    if not deployment.frontend_decoding:
        yield RemotePictures(pictures, lines.ledger, salt)
        return
    loader = MediaLoader(deployment.media)
    try:
        yield PictureStore(loader, ArrayStore(lines.transfer), salt)
    finally:
        await loader.aclose()


def _api_options(deployment: Deployment) -> ApiOptions:
    return ApiOptions(
        limit_images=deployment.limit_images,
        max_body_bytes=int(deployment.max_body_mb * 2**20),
        api_keys=deployment.api_keys,
    )


def _longest(ready: Iterable[Ready]) -> int:
    """Tokens of prompt and answer that every generating worker can hold."""
    return min(one.max_tokens_per_sequence for one in ready if one.max_tokens_per_sequence)
