"""`easerve serve`: a server that lives until it is told to stop."""

from __future__ import annotations

import asyncio
import signal

from rich.console import Console

from easerve.cli.configuring import effective
from easerve.config import Deployment
from easerve.server import Server, shown


async def serve_until_signalled(deployment: Deployment, host: str, port: int, console: Console) -> None:
    """Ctrl-C or SIGTERM, also during the start, ends everything in order; Ctrl-C after that ends the drain.

    Not SIGTERM again: who sends it may send it to the process and to its group.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    up: asyncio.Future[Server] = loop.create_future()

    def interrupt() -> None:
        if stop.is_set() and up.done():
            up.result().http.hurry()
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    serving = asyncio.create_task(_serve(deployment, host, port, console, up))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        console.print("stopping; Ctrl-C ends what still runs" if up.done() else "stopping")
        serving.cancel()
    stopping.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        console.print("stopped")


async def _serve(deployment: Deployment, host: str, port: int, console: Console, up: asyncio.Future[Server]) -> None:
    console.print(effective(deployment))
    async with shown(deployment, console, host=host, port=port) as server:
        up.set_result(server)
        console.print(_greeting(server))
        await server.ended()


def _greeting(server: Server) -> str:
    return f"[green]ready[/] {server.url}/v1  model {server.model}  (docs at {server.url}/docs)"
