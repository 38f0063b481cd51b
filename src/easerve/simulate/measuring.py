"""What a server adds to its engines, measured on one whose workers sleep for as long as those might take.

In CPU time, which other load on the machine does not stretch: that of this process, which is front end and client, and
that of the worker. Sending, HTTP, decoding pictures, tokenizing, messages and text are in it. At a pace that engines
have: tokens that came without a pause would be passed on several at a time, by processes that never went to sleep, for
about half of what each costs alone.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random

import msgspec
import psutil

from easerve.bench.exchange import Prepared
from easerve.bench.generator import Generator
from easerve.bench.target import client, discover
from easerve.bench.wire import HttpWire
from easerve.bench.workloads.drawn import Drawn
from easerve.config import Deployment
from easerve.costs.profile_file import (
    DecodeTime,
    EncodeTime,
    Machine,
    Model,
    PrefillTime,
    Profile,
    ServerTime,
    write_profile,
)
from easerve.costs.shapes.find import find_shape
from easerve.errors import StartupError
from easerve.profile.neighbours import measure_slowdowns, other_core
from easerve.server import Server, running
from easerve.workers.spec import Device

PACE = 0.01  # seconds of whatever a worker does: about a decode step of what one serves on cores
PICTURES, SIDES, TOKENS = 2, (56, 448), (1, 33)


@dataclass(frozen=True)
class _Spent:
    """CPU seconds of a request."""

    front_end: float
    worker: float


async def measure_server(folder: Path, requests: int = 20) -> ServerTime:
    """Over so many requests of each kind, one at a time. Raises StartupError if the model does not serve."""
    async with _server(folder) as server, client(server.url, None) as http:
        wire = HttpWire(http, await discover(http, None), ignore_eos=True, timeout=60.0)
        bench = _Bench(wire, [psutil.Process(one.pid) for one in server.ready.values()], requests)
        few, many = TOKENS
        await bench.spend(Drawn(images=PICTURES, output_tokens=many))  # does not count
        short, long = [await bench.spend(Drawn(images=0, output_tokens=tokens)) for tokens in TOKENS]
        small, large = [
            await bench.spend(Drawn(images=PICTURES, size=(side, side), output_tokens=few)) for side in SIDES
        ]
    pixels = [side * side for side in SIDES]
    token = max(0.0, (long.front_end - short.front_end) / (many - few))
    pixel = max(0.0, (large.front_end - small.front_end) / PICTURES / (pixels[1] - pixels[0]))
    return ServerTime(
        request=max(0.0, short.front_end - few * token),
        picture=max(0.0, (small.front_end - short.front_end) / PICTURES - pixel * pixels[0]),
        pixel=pixel,
        token=token,
        step=max(0.0, (long.worker - short.worker) / (many - few)),
    )


@asynccontextmanager
async def _server(folder: Path) -> AsyncIterator[Server]:
    """With a timed worker that does everything, at the pace."""
    with tempfile.TemporaryDirectory() as place:
        paced = Path(place) / "paced.json"
        write_profile(_paced(folder), paced)
        arguments = ("hardware=cpu", f"profile={paced}")
        deployment = Deployment(
            model=str(folder), device="cpu", topology="aggregated", engine="timed", engine_args=arguments
        )
        async with running(deployment, lambda *_: None) as server:
            yield server


def _paced(folder: Path) -> Profile:
    """Every batch and step of this model takes equally long."""
    shape = find_shape(str(folder))
    return Profile(
        machine=Machine("none", "cpu:0", ""),
        model=Model(folder.name, shape.parameters, "auto"),
        kv_bytes_per_token=shape.language.kv_bytes_per_token,
        embedding_bytes_per_token=shape.embedding_bytes_per_token,
        kv_tokens=2**16,
        encode=(EncodeTime(1, 1, 1, PACE),),
        prefill=(PrefillTime(2, 0, PACE),),
        decode=(DecodeTime(1, 1, PACE),),
    )


@dataclass(frozen=True)
class _Bench:
    wire: HttpWire
    workers: Sequence[psutil.Process]
    requests: int

    async def spend(self, workload: Drawn) -> _Spent:
        prepared = await asyncio.to_thread(self._prepared, workload)  # connections must not die of old age meanwhile
        began = self._used()
        observed = await Generator(self.wire).closed_loop(iter(prepared), 1, None)
        ended = self._used()
        if failed := [record for record in observed.records if record.error is not None]:
            raise StartupError(f"a request failed while the server was measured: {failed[0].error} {failed[0].message}")
        front_end, worker = ((after - before) / self.requests for before, after in zip(began, ended, strict=True))
        return _Spent(front_end, worker)

    def _prepared(self, workload: Drawn) -> list[Prepared]:
        drawn = workload.requests(Random(repr(workload)), self.wire.draw)
        return [self.wire.prepare(one) for one in islice(drawn, self.requests)]

    def _used(self) -> tuple[float, float]:
        return time.process_time(), sum(sum(one.cpu_times()[:2]) for one in self.workers)


def with_surroundings(
    profile: Callable[[], Profile], folder: Path, device: Device, requests: int = 20, dtype: str = "auto"
) -> Profile:
    """What `profile` measures, with what surrounds the stages on a CPU: the server, and other cores at work.

    In this order, since profiling binds this process to its device. The other cores run the torch engine.
    """
    server = asyncio.run(measure_server(folder, requests))
    neighbour = other_core(device)
    slowdown = measure_slowdowns(folder, device, neighbour, dtype) if neighbour is not None else []
    return msgspec.structs.replace(profile(), server=server, slowdown=tuple(slowdown))
