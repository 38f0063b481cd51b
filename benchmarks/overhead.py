"""What processes, transport and API cost on top of the engines, one request at a time.

    python benchmarks/overhead.py

Two figures: the front end's own time from a request's arrival to its picture's hand-over to encode (decoding the
picture not counted), and what a whole request over HTTP takes beyond the same work done by the engines alone in this
process. Whole requests and engine runs alternate, so that a machine whose speed drifts does not favour either.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from statistics import median

import numpy as np
import torch

from easerve.builtin import scenes
from easerve.client import data_uri
from easerve.config import Deployment, model_folder
from easerve.demo.run import png
from easerve.engine.base import NewSequence
from easerve.engine.torch.engine import TorchEncoder, TorchLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.models.registry import load_family
from easerve.pipeline.door import Place
from easerve.pipeline.media import Reload
from easerve.pipeline.pipeline import Pipeline
from easerve.pipeline.stages import EncodedBatch, EncodeStage
from easerve.pipeline.timing import RequestTimes
from easerve.request import MediaItem, Request, TokenOutput
from easerve.server import Server, running

QUESTION = "describe the picture ."
FRONT_END_BOUND_MS = 3.0
WHOLE_BOUND_MS = 8.0


@dataclass
class Probe:
    """Stands before a server's pipeline and encode worker, and notes when a request reaches each."""

    pipeline: Pipeline
    worker: EncodeStage
    name: str
    front_end: list[float] = field(default_factory=list)  # seconds
    requests: list[Request] = field(default_factory=list)
    _times: RequestTimes | None = None

    def generate(
        self, request: Request, times: RequestTimes, place: Place | None = None, reload: Reload | None = None
    ) -> AsyncGenerator[TokenOutput, str | None]:
        self._times = times
        self.requests.append(request)
        return Pipeline.generate(self.pipeline, request, times, place, reload)

    async def encode(self, items: Sequence[MediaItem]) -> EncodedBatch:
        if self._times is not None:
            spent = asyncio.get_running_loop().time() - self._times.received
            self.front_end.append(spent - self._times.fetch - self._times.decode_media)
        return await self.worker.encode(items)


class Engines:
    """Encoder and language model in this process: the same work without a server."""

    def __init__(self) -> None:
        family = load_family(model_folder(Deployment()))
        self._encoder = TorchEncoder(family.load_encoder("cpu", None))
        self._model = TorchLanguageModel(family.load_language_model("cpu", None), EngineOptions())

    def run(self, request: Request, picture: np.ndarray) -> tuple[float, int]:
        """Seconds and output tokens of one request."""
        started = time.perf_counter()
        embedding = self._encoder.encode([picture])[0]
        media = [(request.media[0].offset, embedding)]
        self._model.add(NewSequence("one", list(request.prompt), request.sampling, media))
        tokens = 0
        while self._model.has_work():
            tokens += len(self._model.step())
        return time.perf_counter() - started, tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100, help="counted requests, after ten to warm up")
    parser.add_argument("--size", type=int, default=224, help="side of the pictures in pixels")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = asyncio.run(_measure(arguments.requests, arguments.size))
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{arguments.requests} requests with one {arguments.size}x{arguments.size} PNG, one at a time; medians")
    print(f"  front end, arrival to encode  {found['front_end_ms']:.2f} ms   wanted <= {FRONT_END_BOUND_MS} ms")
    print(f"  whole request over HTTP       {found['whole_ms']:.2f} ms")
    print(f"  engines alone                 {found['engines_ms']:.2f} ms")
    print(f"  added                         {found['added_ms']:.2f} ms   wanted <= {WHOLE_BOUND_MS} ms")
    print(f"  whole / engines alone         {found['ratio']:.3f}")


async def _measure(amount: int, size: int) -> dict[str, float]:
    async with running(Deployment(device="cpu"), lambda *_: None) as server:
        probe = _attach(server)
        engines = Engines()
        whole, alone = [], []
        async with _connected(server.url) as post:
            for index, (picture, url) in enumerate(_pictures(amount + 10, size)):
                request = _request(server, url)
                started = time.perf_counter()
                await post(request)
                taken = time.perf_counter() - started
                engine_time, _ = engines.run(probe.requests[-1], picture)
                if index >= 10:
                    whole.append(taken)
                    alone.append(engine_time)
        added = [one - other for one, other in zip(whole, alone, strict=True)]
        return {
            "front_end_ms": median(probe.front_end[10:]) * 1000,
            "whole_ms": median(whole) * 1000,
            "engines_ms": median(alone) * 1000,
            "added_ms": median(added) * 1000,
            "ratio": median(one / other for one, other in zip(whole, alone, strict=True)),
        }


def _request(server: Server, url: str) -> bytes:
    """A whole HTTP request, made before the clock starts: what a client library costs is no cost of the server's."""
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]
    message = {"role": "user", "content": content}
    body = json.dumps({"model": server.model, "messages": [message], "temperature": 0, "max_tokens": 64}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Content-Type: application/json\r\n\r\n".encode() + body


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
    """Sends requests over one connection, each answered before the next."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))

    async def post(request: bytes) -> None:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        body = await reader.readexactly(int(head.split("content-length:")[1].split()[0]))
        if " 200 " not in head:
            raise SystemExit(body.decode())

    try:
        yield post
    finally:
        writer.close()


def _attach(server: Server) -> Probe:
    """Put a probe in the way of the running server's requests."""
    pipeline, name = server.pipeline, "encode-0"
    probe = Probe(pipeline, server.supervisor.clients[name], name)
    pipeline.encode_pool.remove_worker(name, returns=False)
    pipeline.encode_pool.add_worker(probe)
    object.__setattr__(pipeline, "generate", probe.generate)  # the pipeline is frozen, for everybody else
    return probe


def _pictures(amount: int, size: int) -> list[tuple[np.ndarray, str]]:
    """Distinct pictures as pixels and as data URIs."""
    rng = Random(0)
    made = []
    for _ in range(amount):
        picture = scenes.draw(scenes.random_scene(rng, held_out=True), (size, size), rng)
        made.append((np.asarray(picture), data_uri(png(picture))))
    return made


if __name__ == "__main__":
    main()
