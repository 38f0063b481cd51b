"""`easerve serve`: a server that lives until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack

from rich.console import Console

from easerve.cli.configuring import effective
from easerve.config import Deployment
from easerve.observe.startup import StartupProgress
from easerve.server import Server, running


async def serve_until_signalled(deployment: Deployment, host: str, port: int, console: Console) -> None:
    """Ctrl-C or SIGTERM, also during the start, ends everything in order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    serving = asyncio.create_task(_serve(deployment, host, port, console))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        console.print("stopping")
        serving.cancel()
    stopping.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        console.print("stopped")


async def _serve(deployment: Deployment, host: str, port: int, console: Console) -> None:
    console.print(effective(deployment))
    async with AsyncExitStack() as exits:
        with StartupProgress(console) as progress:
            server = await exits.enter_async_context(running(deployment, progress.report, host=host, port=port))
        console.print(_greeting(server))
        await server.ended()


def _greeting(server: Server) -> str:
    return f"[green]ready[/] {server.url}/v1  model {server.model}  (docs at {server.url}/docs)"
