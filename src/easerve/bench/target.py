"""The server under load: where it is, what it serves, and whether it can tell where its time goes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx

from easerve.errors import Unavailable

LOOKUP_TIMEOUT = 10.0  # seconds


@dataclass(frozen=True)
class Target:
    """`url` without /v1. `easerve`: the server gives stage times and metrics of its workers."""

    url: str
    model: str
    easerve: bool
    version: str | None


def client(url: str, api_key: str | None) -> httpx.AsyncClient:
    """Without limits of its own on connections or time: load is the schedule's business."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    return httpx.AsyncClient(
        base_url=url.rstrip("/").removesuffix("/v1"), headers=headers, timeout=None, limits=limits, trust_env=False
    )


async def discover(http: httpx.AsyncClient, model: str | None) -> Target:
    """Raises Unavailable if nothing OpenAI-compatible answers there."""
    url = str(http.base_url).rstrip("/")
    card: dict[str, Any] = {}
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT):
            answer = await http.get("/v1/models")
            answer.raise_for_status()
            cards = answer.json()["data"]
            card = next((one for one in cards if model in (None, one["id"])), {})
            version = await _version(http)
    except (httpx.HTTPError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"no OpenAI-compatible server answers at {url}/v1/models: {error!r}") from error
    if model is None and not card:
        raise Unavailable(f"{url}/v1/models lists no model; name one with --model")
    return Target(url, model or card["id"], card.get("owned_by") == "easerve", version)


async def _version(http: httpx.AsyncClient) -> str | None:
    answer = await http.get("/version")
    if answer.is_error:
        return None
    try:
        return str(answer.json()["version"])
    except (ValueError, KeyError, TypeError):
        return None
