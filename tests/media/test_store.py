"""A request's pictures are laid down all or not at all, whatever fails, leaves or comes late."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from PIL import Image

from easerve.errors import BadRequest, TransferError
from easerve.media import MediaLoader, MediaOptions, PictureStore, content_key
from easerve.media.decode import Pixels
from easerve.request import TensorRef
from tests.media.pictures import data_uri, encoded, scene
from tests.media.servers import Server, reply, running


class Memory:
    """Holds arrays. `full_after` puts the next fails; a put waits for `gate` where there is one."""

    def __init__(self, full_after: int = 1000, gate: threading.Event | None = None) -> None:
        self.live: dict[str, Pixels] = {}
        self.puts = 0
        self.waiting = 0
        self._full_after = full_after
        self._gate = gate
        self._lock = threading.Lock()

    def put(self, array: Pixels) -> TensorRef:
        with self._lock:
            self.waiting += 1
        if self._gate is not None:
            assert self._gate.wait(10)
        with self._lock:
            if self.puts == self._full_after:
                raise TransferError("no shared memory")
            self.puts += 1
            self.live[str(self.puts)] = array
            return TensorRef(str(self.puts), array.shape, "uint8", array.nbytes)

    def release(self, ref: TensorRef) -> None:
        del self.live[ref.name]  # a second release is an error here: it means two owners


@asynccontextmanager
async def storing(memory: Memory, **options: Any) -> AsyncIterator[tuple[Server, PictureStore]]:
    loader = MediaLoader(MediaOptions(allowed_domains=("127.0.0.1",), fetch_timeout_s=5.0, **options))
    async with running() as server:
        try:
            yield server, PictureStore(loader, memory, b"salt")
        finally:
            await loader.aclose()


async def _soon(holds: Callable[[], bool], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.005)


async def _hang(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


def picture(height: int = 24, width: int = 40) -> str:
    return data_uri(encoded(scene(height, width), "PNG"))


async def test_pictures_lie_in_order_with_the_key_and_size_of_their_pixels() -> None:
    memory = Memory()
    release = asyncio.Event()

    async def late(writer: asyncio.StreamWriter) -> None:
        await release.wait()
        await reply(encoded(Image.new("RGB", (3, 5), "red"), "PNG"))(writer)

    async with storing(memory) as (server, store):
        server.answers["/late"] = late
        sources = [(server.url("/late"), "a"), (picture(), "b"), (server.url("/late"), "c"), (picture(7, 9), "d")]
        task = asyncio.create_task(store.load_all(sources))
        await _soon(lambda: memory.puts == 2)  # the others do not wait for those that are late
        release.set()
        laid = await task
        assert [(one.height, one.width) for one in laid] == [(5, 3), (24, 40), (5, 3), (7, 9)]
        for one in laid:
            pixels = memory.live[one.pixels.name]
            assert one.pixels.shape == pixels.shape == (one.height, one.width, 3)
            assert one.key == content_key(pixels, b"salt")
        assert (memory.live[laid[1].pixels.name] == np.asarray(scene())).all()
        assert len({one.pixels.name for one in laid}) == 4, "equal pictures have buffers of their own"
        assert await store.load_all([]) == []


async def test_the_first_error_ends_the_others_and_takes_back_what_lies() -> None:
    memory = Memory()

    async def broken_in_the_end(writer: asyncio.StreamWriter) -> None:
        await _soon(lambda: memory.puts == 2)
        await reply(b"no picture")(writer)

    async with storing(memory) as (server, store):
        server.answers["/hang"] = _hang
        server.answers["/broken"] = broken_in_the_end
        before = asyncio.all_tasks()
        sources = [(picture(), "a"), (server.url("/hang"), "b"), (server.url("/broken"), "c"), (picture(), "d")]
        with pytest.raises(BadRequest, match=r"^c: ") as caught:
            await store.load_all(sources)
        assert caught.value.param == "c"
        assert (memory.puts, memory.live) == (2, {})
        started_since = [str(task.get_coro()) for task in asyncio.all_tasks() - before]
        assert all("Server.serve" in name for name in started_since), started_since


@pytest.mark.parametrize("full_after", [0, 1, 2])
async def test_without_room_for_one_there_is_none(full_after: int) -> None:
    memory = Memory(full_after)
    async with storing(memory) as (_, store):
        with pytest.raises(TransferError, match="no shared memory") as caught:
            await store.load_all([(picture(), "a"), (picture(), "b"), (picture(), "c")])
        assert caught.value.param in {"a", "b", "c"}
        await _soon(lambda: memory.waiting > full_after and not memory.live)
        assert memory.puts == full_after


@pytest.mark.parametrize("threads", [1, 2])
async def test_a_thread_that_is_late_leaves_nothing(threads: int) -> None:
    """Two pictures lie, others are on their way down in threads that cannot be stopped, or wait for one."""
    gate = threading.Event()
    memory = Memory(gate=gate)
    async with storing(memory, decode_threads=threads) as (_, store):
        gate.set()
        kept = await store.load_all([(picture(), "kept")])
        gate.clear()
        task = asyncio.create_task(store.load_all([(picture(), str(k)) for k in range(4)]))
        await _soon(lambda: memory.waiting == 1 + threads)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await _soon(lambda: memory.puts == 1 + threads)
        await _soon(lambda: list(memory.live) == [kept[0].pixels.name])
        await store.load_all([(picture(), "next")])
        assert memory.puts == 2 + threads, "what waited for a thread was not decoded any more"


async def test_cancelled_at_any_moment_nothing_stays() -> None:
    memory = Memory()
    async with storing(memory) as (_, store):
        cancelled = 0
        while True:  # later each time, until it is done before the cancel
            task = asyncio.create_task(store.load_all([(picture(), "a"), (picture(), "b")]))
            done, _ = await asyncio.wait({task}, timeout=cancelled * 0.0002)
            if done:
                break
            task.cancel()
            cancelled += 1
            with pytest.raises(asyncio.CancelledError):
                await task
        await _soon(lambda: set(memory.live) == {one.pixels.name for one in task.result()})
        assert cancelled
