"""`easerve chat`: one question about files on disk, answered by a server that lives for it."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
from rich.console import Console

from easerve.client import ask, data_uri
from easerve.config import Deployment
from easerve.observe.startup import StartupProgress
from easerve.server import running


async def chat_once(
    deployment: Deployment, question: str, images: Sequence[Path], max_tokens: int, timing: bool, console: Console
) -> None:
    """Prints the answer on standard output; progress and timing go to `console`."""
    urls = [data_uri(path.read_bytes(), mimetypes.guess_type(path)[0] or "image/png") for path in images]
    async with AsyncExitStack() as exits:
        with StartupProgress(console) as progress:
            server = await exits.enter_async_context(running(deployment, progress.report))
        http = await exits.enter_async_context(httpx.AsyncClient(base_url=server.url, timeout=None))
        answer = await ask(http, server.model, question, urls, max_tokens)
    print(answer.text)
    if timing:
        console.print_json(data=answer.timing)
