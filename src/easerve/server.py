"""One server from start to stop: workers, pipeline and HTTP API, wired together and taken down in reverse."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

import uvicorn

from easerve.api.app import create_app
from easerve.api.options import ApiOptions
from easerve.api.service import load_served_model
from easerve.config import Deployment, model_folder, plan_workers, served_name
from easerve.errors import StartupError
from easerve.media import MediaLoader
from easerve.models.base import Family
from easerve.models.registry import load_family
from easerve.pipeline.encode import EncodePool
from easerve.pipeline.generate import GeneratePool
from easerve.pipeline.pipeline import Deadlines, Pipeline
from easerve.policy.admission import Admission
from easerve.policy.batching import RULES, Batcher
from easerve.policy.placement import PLACEMENTS
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.shm import SharedMemory
from easerve.workers import run_folder
from easerve.workers.hub import Hub
from easerve.workers.messages import Ready
from easerve.workers.spec import WorkerSpec
from easerve.workers.supervisor import ProgressReport, Supervisor

T = TypeVar("T")


@dataclass
class Server:
    """A running server."""

    url: str
    model: str
    pipeline: Pipeline
    supervisor: Supervisor
    ready: dict[str, Ready]
    serving: asyncio.Task[None]

    async def ended(self) -> None:
        """Returns when the HTTP server has stopped by itself, which it does only on an error."""
        await asyncio.shield(self.serving)


@asynccontextmanager
async def running(
    deployment: Deployment, on_progress: ProgressReport, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Server]:
    """Start a server and serve until the block ends; port 0 takes a free one.

    Raises StartupError with the reason if it cannot start.
    """
    async with AsyncExitStack() as exits:
        listener = exits.enter_context(_listener(host, port))
        family = load_family(model_folder(deployment))
        folder = run_folder.create()
        exits.callback(run_folder.remove, folder)
        hub = Hub(folder)
        exits.callback(hub.close)
        hub.start()
        transfer = SharedMemory(folder, "front-end")
        pipeline = _pipeline(deployment, transfer)
        supervisor = Supervisor(hub, transfer, on_progress, lambda name, _: _forget(pipeline, name))
        exits.push_async_callback(supervisor.stop)
        ready, served = await asyncio.gather(
            supervisor.start(_specs(deployment, family, hub, str(folder)), deployment.startup_timeout),
            asyncio.to_thread(load_served_model, family, served_name(deployment)),
        )
        for plan in plan_workers(deployment):
            client = supervisor.clients[plan.name]
            if "encode" in plan.stages:
                pipeline.encode_pool.add_worker(client)
            if "generate" in plan.stages:
                pipeline.generate_pool.add_worker(client)
        media = MediaLoader(deployment.media)
        exits.push_async_callback(media.aclose)
        app = create_app(
            model=served.within(_longest(ready)),
            pipeline=pipeline,
            media=media,
            buffers=ArrayStore(transfer),
            options=ApiOptions(
                limit_images=deployment.limit_images, max_body_bytes=int(deployment.max_body_mb * 2**20)
            ),
        )
        http = _Http(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5))
        serving = asyncio.create_task(http.serve(sockets=[listener]), name="http")
        exits.push_async_callback(_end, http, serving)
        await _until_started(http, serving)
        yield Server(f"http://{host}:{listener.getsockname()[1]}", served.name, pipeline, supervisor, ready, serving)


class _Http(uvicorn.Server):
    """Signals are the command's business, not the library's: the workers have to be stopped too."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _until_started(http: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    while not http.started and not serving.done():  # noqa: ASYNC110 (the library has no event for it)
        await asyncio.sleep(0.01)


async def _end(http: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    http.should_exit = True
    await serving


@contextmanager
def _listener(host: str, port: int) -> Iterator[socket.socket]:
    """Bound before anything is loaded, so that a taken port is told at once."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise StartupError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --port") from error
    with listener:
        yield listener


def _specs(deployment: Deployment, family: Family, hub: Hub, folder: str) -> list[WorkerSpec]:
    return [
        WorkerSpec(
            name=plan.name,
            stages=plan.stages,
            device=plan.device,
            model=str(family.folder),
            endpoint=hub.endpoint,
            run_folder=folder,
            dtype=deployment.dtype,
            engine=deployment.engine,
        )
        for plan in plan_workers(deployment)
    ]


def _pipeline(deployment: Deployment, transfer: SharedMemory) -> Pipeline:
    rule = _named(RULES, deployment.batching, "batching rule")
    placement = _named(PLACEMENTS, deployment.placement, "placement")
    seconds = deployment.request_timeout
    return Pipeline(
        encode=EncodePool(Batcher(rule, deployment.encode_batch), transfer),
        generate=GeneratePool(placement),
        admission=Admission(deployment.max_requests),
        buffers=transfer,
        deadlines=Deadlines(encode=seconds, first_token=seconds, next_token=seconds),
    )


def _named(table: dict[str, Callable[[], T]], name: str, what: str) -> T:
    if name not in table:
        raise StartupError(f"there is no {what} {name!r}; there are {', '.join(table)}")
    return table[name]()


def _longest(ready: dict[str, Ready]) -> int:
    """Tokens of prompt and answer that every generating worker can hold."""
    return min(one.max_tokens_per_sequence for one in ready.values() if "generate" in one.stages)


def _forget(pipeline: Pipeline, worker: str) -> None:
    pipeline.encode_pool.remove_worker(worker)
    pipeline.generate_pool.remove_worker(worker)
