"""From URL to pixels: named errors, nothing left running, and a free event loop meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image

from easerve.errors import BadRequest, Unavailable
from easerve.media import MediaLoader, MediaOptions
from easerve.media.decode import decode
from tests.media.pictures import data_uri, encoded, noise, png, scene
from tests.media.servers import Server, reply, running

PARAM = "messages[0].content[1].image_url"


@asynccontextmanager
async def loading(**options: Any) -> AsyncIterator[tuple[Server, MediaLoader]]:
    loader = MediaLoader(MediaOptions(allowed_domains=("127.0.0.1",), fetch_timeout_s=5.0, **options))
    async with running() as server:
        try:
            yield server, loader
        finally:
            await loader.aclose()


async def test_a_picture_loads_from_every_kind_of_url(tmp_path: Any) -> None:
    content = encoded(scene(), "PNG")
    (tmp_path / "a.png").write_bytes(content)
    async with loading(allowed_local_path=tmp_path) as (server, loader):
        server.answers["/a.png"] = reply(content, Content_Type="image/png")
        for url in (server.url("/a.png"), data_uri(content), f"file://{tmp_path}/a.png", f"  {server.url('/a.png')}\n"):
            picture = await loader.load(url, param=PARAM)
            assert (picture.made == np.asarray(scene())).all()
            assert 0 <= picture.fetch_s < 5
            assert 0 < picture.decode_s < 5


async def test_the_same_url_with_other_content_is_fetched_anew() -> None:
    async with loading() as (server, loader):
        for colour in ((1, 2, 3), (4, 5, 6)):
            server.answers["/a"] = reply(encoded(Image.new("RGB", (2, 2), colour), "PNG"))
            assert (await loader.load(server.url("/a"), param=PARAM)).made[0, 0].tolist() == list(colour)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("ftp://example.org/a.png", "'ftp' are not fetched; use https:"),
        ("s3://bucket/a.png", "'s3'"),
        ("javascript:alert(1)", "'javascript'"),
        ("picture.png", "is no URL"),
        ("", "is no URL"),
        ("x" * 10**6, "is no URL"),
        ("file:///etc/passwd", "--allowed-local-media-path"),
        ("data:image/png;base64,%%%", "not valid base64"),
        (data_uri(b"%PDF-1.7"), "a PDF document"),
        (data_uri(b""), "zero bytes"),
        ("http://10.0.0.1/a.png", "not among those"),
    ],
)
async def test_errors_name_the_part_the_fault_and_the_remedy_briefly(url: str, word: str) -> None:
    async with loading() as (_, loader):
        with pytest.raises(BadRequest) as caught:
            await loader.load(url, param=PARAM)
        assert caught.value.param == PARAM
        assert caught.value.message.startswith(f"{PARAM}: ")
        assert word in caught.value.message
        assert len(caught.value.message) < 400


async def _hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


def _slow_picture() -> bytes:
    """A JPEG of very many scans, which takes minutes."""
    whole = encoded(Image.new("RGB", (2000, 2000)), "JPEG", progressive=True)
    at = whole.rindex(b"\xff\xda")
    return whole[:at] + whole[at:-2] * 20_000 + b"\xff\xd9"


async def test_cancelling_frees_the_decoding_thread() -> None:
    async with loading(decode_threads=1) as (_, loader):
        task = asyncio.create_task(loader.load(data_uri(_slow_picture()), param="a"))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        started = time.monotonic()
        await loader.load(data_uri(encoded(scene(), "PNG")), param="b")
        assert time.monotonic() - started < 5


async def test_cancelling_closes_the_connection() -> None:
    async with loading() as (server, loader):
        server.answers["/hang"] = _hang
        task = asyncio.gather(*(loader.load(server.url("/hang"), param="a") for _ in range(3)))
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not loader._stops
        server.answers["/a"] = reply(encoded(scene(), "PNG"))
        await loader.load(server.url("/a"), param="b")


async def test_a_cancelled_load_leaves_no_connection_task_or_thread() -> None:
    async def pour(writer: asyncio.StreamWriter) -> None:  # unlike a server that waits, it sees that nobody reads on
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 1000)
            await writer.drain()
            await asyncio.sleep(0.01)

    async with loading(decode_threads=2) as (server, loader):
        server.answers["/pour"] = pour
        before = asyncio.all_tasks()
        urls = [server.url("/pour"), data_uri(_slow_picture()), server.url("/pour")]
        task = asyncio.gather(*(loader.load(url, param="a") for url in urls))
        await _soon(lambda: server.open_connections == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await _soon(lambda: server.open_connections == 0)
        await _soon(lambda: asyncio.all_tasks() == before)
        loader._threads.shutdown(wait=False)
        await _soon(lambda: not any(thread.is_alive() for thread in loader._threads._threads))


async def test_what_waits_for_a_thread_is_not_decoded_after_a_cancel(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes | bytearray] = []

    def noting(content: bytes | bytearray, *others: Any) -> Any:
        decoded.append(content)
        return decode(content, *others)

    monkeypatch.setattr("easerve.media.loader.decode", noting)
    async with loading(decode_threads=1) as (_, loader):
        slow = asyncio.create_task(loader.load(data_uri(_slow_picture()), param="a"))
        await _soon(lambda: len(decoded) == 1)
        others = asyncio.gather(*(loader.load(data_uri(encoded(scene(), "PNG")), param="b") for _ in range(5)))
        await asyncio.sleep(0.05)
        for task in (others, slow):
            task.cancel()
        await asyncio.wait([others, slow], timeout=2)
        await loader.load(data_uri(encoded(scene(), "BMP")), param="c")
        assert len(decoded) == 2


async def _soon(holds: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


async def test_closing_ends_what_is_under_way_and_refuses_what_comes() -> None:
    async with loading() as (server, loader):
        server.answers["/hang"] = _hang
        urls = [server.url("/hang"), data_uri(_slow_picture())]
        tasks = [asyncio.create_task(loader.load(url, param="a")) for url in urls]
        await asyncio.sleep(0.5)
        await loader.aclose()
        for outcome in await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5):
            assert isinstance(outcome, Unavailable)
        for url in urls:
            with pytest.raises(Unavailable, match="stopping"):
                await loader.load(url, param="a")


async def _longest_stretch(until: asyncio.Task[Any], spent: Callable[[], float]) -> float:
    """The most that `spent` grew between two turns of the loop."""
    longest = 0.0
    while not until.done():
        before = spent()
        await asyncio.sleep(0.002)
        longest = max(longest, spent() - before)
    return longest


def _cpu_time(thread: int) -> Callable[[], float]:
    """CPU seconds of a thread, which other load on the machine does not stretch."""
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


def _big(kind: str) -> bytes:
    """15 million pixels, quickly made: all rows are alike. As BMP 45 MB, just under the limit of a file."""
    row = noise(1, 6000)
    if kind == "PNG":
        return png(6000, 2500, 8, 2, (b"\0" + row.tobytes()) * 2500)
    return encoded(Image.fromarray(np.repeat(row, 2500, axis=0)), kind)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP"])
async def test_the_loop_stays_free_while_a_big_picture_is_decoded(kind: str) -> None:
    """It does next to nothing itself, and gets its turns however long the thread that decodes works on."""
    url = data_uri(_big(kind))
    async with loading(decode_threads=1) as (_, loader):
        small = data_uri(encoded(scene(), "PNG"))
        decoding, own = (await loader.load_as(lambda _: threading.get_ident(), small, param="a")).made, time.thread_time
        spent = _cpu_time(decoding)
        decoding_before, own_before = spent(), own()
        task = asyncio.create_task(loader.load(url, param="a"))
        longest = await _longest_stretch(task, spent)
        assert (await task).made.shape == (2500, 6000, 3)
        decoding_took, own_took = spent() - decoding_before, own() - own_before
        assert longest < max(0.05, decoding_took / 4), f"{longest * 1e3:.0f} of {decoding_took * 1e3:.0f} ms"
        assert own_took < decoding_took / 2, f"{own_took * 1e3:.0f} beside {decoding_took * 1e3:.0f} ms"
