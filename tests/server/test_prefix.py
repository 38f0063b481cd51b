"""Prompts that begin alike, through a whole server with two workers that prefill."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from easerve.builtin import scenes
from easerve.server import running
from tests.server.conftest import deployment, messages, uri

BLOCK = 16


@pytest.mark.parametrize("prefix_cache", [True, False])
async def test_a_conversation_is_prefilled_once_and_answered_the_same(prefix_cache: bool) -> None:
    """Two about different pictures take turns, so that each has to find its own worker; words and pictures are as many
    in both, so that a mix-up would change the text and nothing else."""
    pictures = [uri(scene.pictures[0]) for scene in scenes.held_out("one", 2)]
    talks = [messages("what is in the picture ?", [picture]) for picture in pictures]
    fields = deployment(topology="e-pd", decoders=2, prefix_cache=prefix_cache)
    cached: list[list[int]] = [[], []]
    prompts: list[list[int]] = [[], []]
    async with running(fields, lambda *_: None) as server, httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        for turn in range(4):
            for number, talk in enumerate(talks):
                body = {"messages": talk, "temperature": 0, "max_tokens": 24}
                answer = (await http.post("/v1/chat/completions", json=body)).json()
                said, usage = answer["choices"][0]["message"]["content"], answer["usage"]
                cached[number].append(usage["prompt_tokens_details"]["cached_tokens"])
                prompts[number].append(usage["prompt_tokens"])
                talk += [{"role": "assistant", "content": said}, {"role": "user", "content": f"and what else ? {turn}"}]
        async with asyncio.timeout(20):  # workers report twice a second
            while await _counted(http) != sum(map(sum, cached)):
                await asyncio.sleep(0.1)
    if not prefix_cache:
        assert cached == [[0] * 4] * 2
        return
    for had, tokens in zip(cached, prompts, strict=True):
        assert had[0] < BLOCK
        assert all(had[turn] > 0 for turn in range(2, 4)), "a turn did not find the turns before it"
        assert all(have < whole for have, whole in zip(had, tokens, strict=True))


async def _counted(http: httpx.AsyncClient) -> float:
    lines = (await http.get("/metrics")).text.splitlines()
    found = [line for line in lines if line.startswith("easerve_prefix_cached_tokens_total")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)
