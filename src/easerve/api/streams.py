"""Two small movers of asyncio work: many generators into one, and work that ends when its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.types import Receive

T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    error: Exception | None = None


async def merge(sources: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """Items of all sources as they come; the first error ends it. However it ends, all sources are closed."""
    if len(sources) == 1:
        async with aclosing(sources[0]) as only:
            async for item in only:
                yield item
        return
    queue: asyncio.Queue[T | _End] = asyncio.Queue()
    tasks = [asyncio.ensure_future(_drain(source, queue)) for source in sources]
    try:
        running = len(tasks)
        while running:
            item_or_end = await queue.get()
            if not isinstance(item_or_end, _End):
                yield item_or_end
            elif item_or_end.error is not None:
                raise item_or_end.error
            else:
                running -= 1
    finally:
        await _cancel(tasks)


async def _drain(source: AsyncGenerator[T, None], queue: asyncio.Queue[T | _End]) -> None:
    try:
        async with aclosing(source):
            async for item in source:
                queue.put_nowait(item)
    except Exception as error:
        queue.put_nowait(_End(error))
    else:
        queue.put_nowait(_End())


async def until_disconnect(receive: Receive, work: Coroutine[Any, Any, None]) -> bool:
    """Do `work`, and cancel it at once when the client leaves. False: it left. Errors of `work` are raised."""
    task = asyncio.current_task()
    assert task is not None
    left = over = False

    def leave(_: asyncio.Future[None]) -> None:
        nonlocal left
        if not over:  # else this was on its way already when the work ended
            left = True
            task.cancel()

    gone = asyncio.ensure_future(_disconnected(receive))
    gone.add_done_callback(leave)
    try:
        await work
    except asyncio.CancelledError:
        if left and task.uncancel() == 0:
            return False
        raise  # somebody else's
    finally:
        over = True
        gone.cancel()
    return True


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancel(tasks: Sequence[asyncio.Future[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
