"""`easerve chat`: one question about files on disk, answered by a server that lives for it."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
from rich.console import Console

from easerve.client import Answer, ask, ask_streaming, data_uri
from easerve.config import Deployment
from easerve.errors import EAServeError
from easerve.observe.startup import StartupProgress
from easerve.server import Server, running


async def chat_once(
    deployment: Deployment,
    question: str,
    images: Sequence[Path],
    max_tokens: int,
    stream: bool,
    timing: bool,
    console: Console,
) -> None:
    """Prints the answer on standard output, with `stream` token by token; progress and timing go to `console`.

    Raises the server's error, typed, also when part of the answer is out.
    """
    urls = [data_uri(path.read_bytes(), mimetypes.guess_type(path)[0] or "image/png") for path in images]
    async with AsyncExitStack() as exits:
        with StartupProgress(console) as progress:
            server = await exits.enter_async_context(running(deployment, progress.report))
        answer = await _answer(server, question, urls, max_tokens, stream)
    if timing:
        console.print_json(data=answer.timing)


async def _answer(server: Server, question: str, urls: Sequence[str], max_tokens: int, stream: bool) -> Answer:
    line = _Line()
    async with httpx.AsyncClient(base_url=server.url, timeout=None) as http:
        try:
            if stream:
                return await ask_streaming(http, server.model, question, urls, max_tokens, line.write)
            answer = await ask(http, server.model, question, urls, max_tokens)
            line.write(answer.text)
            return answer
        except httpx.HTTPError as error:
            raise EAServeError(f"the connection to the server broke: {error or type(error).__name__}") from error
        finally:
            line.end()


class _Line:
    """Text on standard output, in pieces, and a line break after it if there was any."""

    def __init__(self) -> None:
        self._begun = False

    def write(self, text: str) -> None:
        self._begun = True
        print(text, end="", flush=True)

    def end(self) -> None:
        if self._begun:
            print()
