"""The smallest client of our own API: one question about pictures, answered with the time each stage took."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from easerve.errors import EAServeError, by_status

PATH = "/v1/chat/completions"
Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """The text, and the server's `timing` and `usage` objects as they came."""

    text: str
    timing: Json
    usage: Json


def data_uri(content: bytes, kind: str = "image/png") -> str:
    """Bytes as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


async def ask(http: httpx.AsyncClient, model: str, question: str, pictures: Sequence[str], max_tokens: int) -> Answer:
    """One greedy answer; `pictures` are URLs of any kind the server takes. Raises the server's error, typed."""
    response = await http.post(PATH, json=_body(model, question, pictures, max_tokens))
    content = response.json()
    if response.is_error:
        raise by_status(response.status_code, content["error"]["message"])
    text = content["choices"][0]["message"]["content"]
    return Answer(text, content.get("timing") or {}, content.get("usage") or {})


async def ask_streaming(
    http: httpx.AsyncClient,
    model: str,
    question: str,
    pictures: Sequence[str],
    max_tokens: int,
    on_text: Callable[[str], None],
) -> Answer:
    """Like `ask`, with every piece of the text handed to `on_text` as it comes."""
    body = _body(model, question, pictures, max_tokens)
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    pieces: list[str] = []
    last: Json = {}
    async with http.stream("POST", PATH, json=body) as response:
        if response.is_error:
            raise by_status(response.status_code, json.loads(await response.aread())["error"]["message"])
        async for last in _events(response):
            for choice in last["choices"]:
                if piece := choice["delta"].get("content"):
                    pieces.append(piece)
                    on_text(piece)
    return Answer("".join(pieces), last.get("timing") or {}, last.get("usage") or {})


def _body(model: str, question: str, pictures: Sequence[str], max_tokens: int) -> Json:
    parts: list[Json] = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    return {
        "model": model,
        "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": question}]}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "include_timing": True,
    }


async def _events(response: httpx.Response) -> AsyncIterator[Json]:
    """The chunks of a stream. Raises the error that ends it, or EAServeError when it breaks off."""
    async for line in response.aiter_lines():
        name, _, data = line.partition(": ")
        if name != "data":
            continue
        if data == "[DONE]":
            return
        event = json.loads(data)
        if "error" in event:
            raise EAServeError(event["error"]["message"])
        yield event
    raise EAServeError("the server broke the answer off")
