"""A whole server in the test's own event loop: real worker processes, real sockets, and the pipeline within reach."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from PIL import Image

from easerve.builtin import scenes
from easerve.config import Deployment
from easerve.server import Server, running


def deployment(**fields: object) -> Deployment:
    return Deployment(device="cpu", max_sequences=32, **fields)  # type: ignore[arg-type]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def colocated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("pictures")
    scenes.held_out("one", 1)[0].pictures[0].save(folder / "allowed.png")
    async with running(deployment(allowed_local_media_path=folder, limit_images=4), lambda *_: None) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def aggregated() -> AsyncIterator[Server]:
    async with running(deployment(topology="aggregated"), lambda *_: None) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def http(colocated: Server) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=colocated.url, timeout=60) as client:
        yield client


def uri(picture: Image.Image | bytes, kind: str = "png") -> str:
    """A picture, or the bytes of a file, as a data URI."""
    if isinstance(picture, Image.Image):
        file = io.BytesIO()
        picture.save(file, kind)
        picture = file.getvalue()
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def messages(question: str, urls: list[str]) -> list[dict[str, object]]:
    parts: list[dict[str, object]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": question}]}]


def run_folders(pid: int | None = None) -> set[Path]:
    """Of the servers in a process, this one by default; with what they have in shared memory."""
    return set(Path("/dev/shm").glob(f"easerve-{pid or os.getpid()}-*"))
