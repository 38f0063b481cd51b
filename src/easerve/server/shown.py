"""A server whose start somebody watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from rich.console import Console

from easerve.config import Deployment
from easerve.observe.startup import StartupProgress
from easerve.server.run import Server, running


@asynccontextmanager
async def shown(
    deployment: Deployment, console: Console, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Server]:
    """As `running`, with what the workers are at on `console` until they are ready."""
    async with AsyncExitStack() as exits:
        with StartupProgress(console) as progress:
            server = await exits.enter_async_context(running(deployment, progress.report, host=host, port=port))
        yield server
