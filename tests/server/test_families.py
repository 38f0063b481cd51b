"""Other families behind the whole server, on small random checkpoints made on the spot."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from easerve.models.registry import load_family
from easerve.server import running
from tests.tiny_models import make_tiny, random_picture

from .conftest import deployment, messages, uri

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("family", ["qwen3_vl", "llava_next"])
async def test_a_picture_reaches_the_model_and_counts_as_many_tokens_as_it_fills(tmp_path: Path, family: str) -> None:
    folder = make_tiny(family, tmp_path / "model")
    pictures = [np.asarray(random_picture(60, 90)), np.asarray(random_picture(120, 50))]
    rules = load_family(str(folder))

    async def ask(http: httpx.AsyncClient, *urls: str) -> tuple[str, int]:
        body = {"messages": messages("ab", list(urls)), "max_tokens": 6, "temperature": 0, "ignore_eos": True}
        response = await http.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        content = response.json()
        assert content["usage"]["completion_tokens"] == 6
        return content["choices"][0]["message"]["content"], content["usage"]["prompt_tokens"]

    async with running(deployment(model=str(folder)), lambda *_: None) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            first, second = (uri(Image.fromarray(picture)) for picture in pictures)
            (one, tokens_one), (two, tokens_two) = await ask(http, first), await ask(http, second)
            both, _ = await ask(http, first, second)
            swapped, _ = await ask(http, second, first)
    filled = [rules.image_tokens(*picture.shape[:2]) for picture in pictures]
    assert tokens_two - tokens_one == filled[1] - filled[0]
    assert len({one, two, both, swapped}) > 1, "the answer does not depend on the picture"
