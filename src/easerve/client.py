"""The smallest client of our own API: one question about pictures, answered with the time each stage took."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from easerve.errors import by_status


@dataclass(frozen=True)
class Answer:
    """The text, and the server's `timing` and `usage` objects as they came."""

    text: str
    timing: dict[str, Any]
    usage: dict[str, Any]


def data_uri(content: bytes, kind: str = "image/png") -> str:
    """Bytes as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


async def ask(http: httpx.AsyncClient, model: str, question: str, pictures: Sequence[str], max_tokens: int) -> Answer:
    """One greedy answer; `pictures` are URLs of any kind the server takes. Raises the server's error, typed."""
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    body = {
        "model": model,
        "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": question}]}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "include_timing": True,
    }
    response = await http.post("/v1/chat/completions", json=body)
    content = response.json()
    if response.is_error:
        raise by_status(response.status_code, content["error"]["message"])
    text = content["choices"][0]["message"]["content"]
    return Answer(text, content.get("timing") or {}, content.get("usage") or {})
