"""Requests, and clients in processes of their own, for benchmarks that put load on a server in this process."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from http.client import HTTPConnection
from itertools import cycle
from multiprocessing import get_context
from random import Random
from typing import Any
from urllib.parse import urlsplit

from easerve.builtin import scenes
from easerve.client import data_uri
from easerve.demo.run import png
from easerve.priority import go_first
from easerve.server import Server

Client = Callable[..., asyncio.Future[Any]]
Timing = dict[str, Any]  # of an answer: milliseconds


def body(question: str, urls: Sequence[str] = (), *, max_tokens: int = 8, stream: bool = False) -> bytes:
    """A greedy chat request as it goes over the wire."""
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    message = {"role": "user", "content": [*parts, {"type": "text", "text": question}]}
    content = {"messages": [message], "temperature": 0, "max_tokens": max_tokens, "stream": stream}
    return json.dumps({"model": "builtin", "include_timing": True, **content}).encode()


def pictures(amount: int, sides: tuple[int, int], rng: Random) -> Iterator[str]:
    """Different pictures as data URIs, each side between these two in pixels."""
    for _ in range(amount):
        size = (rng.randint(*sides), rng.randint(*sides))
        yield data_uri(png(scenes.draw(scenes.random_scene(rng, held_out=True), size, rng)))


def poisson(rate: float, seconds: float, rng: Random) -> Iterator[float]:
    """Moments of a Poisson process, in seconds."""
    moment = rng.expovariate(rate)
    while moment < seconds:
        yield moment
        moment += rng.expovariate(rate)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


@asynccontextmanager
async def client() -> AsyncIterator[Client]:
    """Runs a load function with its arguments in a process of its own, which is up already."""
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        await loop.run_in_executor(pool, str)
        yield lambda load, *arguments: loop.run_in_executor(pool, load, *arguments)


def closed_loop(url: str, bodies: Sequence[bytes], concurrency: int, seconds: float) -> int:
    """Requests answered; each of `concurrency` connections sends its next one when its last is answered."""
    end, turns = time.monotonic() + seconds, cycle(bodies)

    def work() -> int:
        connection, done = connect(url), 0
        while time.monotonic() < end:
            post(connection, next(turns))
            done += 1
        return done

    with ThreadPoolExecutor(concurrency) as threads:
        return sum(task.result() for task in [threads.submit(work) for _ in range(concurrency)])


def open_loop(url: str, bodies: Sequence[bytes], arrivals: Sequence[float]) -> list[tuple[float, Timing]]:
    """Milliseconds from each moment to the first token of the request that was due then, and the server's times.

    Each request has a connection of its own, as the server closes those that are idle for some seconds. Where that is
    allowed, these clients never wait for a core: that would be no time of the server's.
    """
    go_first()
    start, turns = time.monotonic() + 0.05, cycle(bodies)

    def work(due: float, content: bytes) -> tuple[float, Timing]:
        with closing(connect(url)) as connection:
            first, timing = post(connection, content)
        return (first - due) * 1000, timing

    with ThreadPoolExecutor(256, initializer=go_first) as threads:
        tasks = []
        for due in (start + arrival for arrival in arrivals):
            time.sleep(max(0.0, due - time.monotonic()))
            tasks.append(threads.submit(work, due, next(turns)))
        return [task.result() for task in tasks]


def connect(url: str) -> HTTPConnection:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=120)
    connection.connect()
    return connection


def post(connection: HTTPConnection, content: bytes) -> tuple[float, Timing]:
    """When (monotonic) a stream's first token came, or else the whole answer; and its `timing`.

    Raises RuntimeError for an error.
    """
    connection.request("POST", "/v1/chat/completions", content, {"Content-Type": "application/json"})
    if hasattr(socket, "TCP_QUICKACK"):  # a delayed acknowledgement is no part of what is measured here
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(response.read().decode())
    first = 0.0
    timing: Timing = {}
    for line in response:
        now = time.monotonic()
        if (piece := line.removeprefix(b"data: ")).startswith(b"{"):
            answer = json.loads(piece)
            choice = answer["choices"][0]
            if (choice.get("delta") or choice.get("message") or {}).get("content"):
                first = first or now
            timing = answer.get("timing") or timing
    response.close()  # the connection stays open
    return first or time.monotonic(), timing


async def metrics(server: Server) -> defaultdict[str, float]:
    """The server's metrics without their prefix, with their labels and as sums over all labels."""

    def read() -> str:
        connection = connect(server.url)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    sums: defaultdict[str, float] = defaultdict(float)
    for line in (await asyncio.to_thread(read)).splitlines():
        if line.startswith("easerve_"):
            name, _, value = line.removeprefix("easerve_").rpartition(" ")
            for key in {name, name.partition("{")[0]}:
                sums[key] += float(value)
    return sums
