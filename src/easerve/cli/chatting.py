"""`easerve chat`: one question about files on disk, answered by a server that lives for it."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from pathlib import Path

import httpx
from rich.console import Console

from easerve.client import Answer, ask, ask_streaming, data_uri
from easerve.config import Deployment
from easerve.errors import EAServeError
from easerve.media import MediaOptions
from easerve.media.decode import decode
from easerve.server import Server, shown


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

    Raises BadRequest that names a file which is no picture, before anything is started; and the server's error, typed,
    also when part of the answer is out.
    """
    urls = [_as_url(path) for path in images]
    async with shown(deployment, console) as server:
        answer = await _answer(server, question, urls, max_tokens, stream)
    if timing:
        console.print_json(data=answer.timing)


def _as_url(path: Path) -> str:
    content = path.read_bytes()
    try:
        decode(content, MediaOptions())
    except EAServeError as error:
        raise type(error)(f"{path}: {error.message}") from error
    return data_uri(content, mimetypes.guess_type(path)[0] or "image/png")


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
