"""Several pieces of work that only make sense together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def all_or_nothing(work: Sequence[Awaitable[T]]) -> list[T]:
    """Results in order; the first error cancels the others, waits for them to end, and is raised."""
    if len(work) == 1:  # most often, and not worth a task
        return [await work[0]]
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
