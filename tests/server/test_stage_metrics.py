"""What `/metrics` tells of the stages, and embeddings whose memory was spoilt."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from easerve.builtin import scenes
from easerve.server import Server, running

from .conftest import deployment, messages, uri
from .traffic import answers, assert_nothing_is_held, mixed

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def values(server: Server) -> dict[str, float]:
    """Every sample of /metrics by name and labels."""
    async with httpx.AsyncClient(base_url=server.url) as http:
        lines = (await http.get("/metrics")).text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}


async def test_the_books_balance() -> None:
    questions = mixed(60, seed=4)
    pictures = sum(len(example.pictures) for example in questions)
    async with running(deployment(topology="easerve", slo_ttft=60.0, slo_tpot=60.0), lambda *_: None) as server:
        await answers(server, questions, 16)
        await assert_nothing_is_held(server)
        found = await values(server)

        def total(prefix: str) -> float:
            return sum(value for name, value in found.items() if name.startswith(prefix))

        encoded = found['easerve_media_items_total{source="encoded"}']
        assert total("easerve_media_items_total") == pictures
        assert total("easerve_worker_items_encoded_total") == encoded
        assert total("easerve_encode_batch_items_sum") == encoded
        assert total("easerve_encode_wait_seconds_count") == encoded
        assert found["easerve_embedding_cache_hits_total"] == pictures - encoded
        media = sum(bool(example.pictures) for example in questions)
        routed = {where: found[f'easerve_prefill_routed_total{{where="{where}"}}'] for where in ("local", "remote")}
        assert sum(routed.values()) == media
        assert abs(routed["local"] - routed["remote"]) <= 1
        assert found["easerve_kv_hand_overs_total"] == len(questions)
        for stage in ("prefill", "decode"):
            assert total(f'easerve_sequence_wait_seconds_count{{stage="{stage}"') == len(questions)
        assert found["easerve_kv_hand_over_bytes_total"] > 0
        assert found['easerve_requests_within_objectives_total{met="yes"}'] == len(questions)
        assert total("easerve_workers_up") == 3
        assert total("easerve_worker_restarts_total") == 0
        assert total("easerve_encode_busy_seconds_total") > 0
        assert found["easerve_buffers"] == 0


@pytest.mark.parametrize("spoil", ["remove", "cut"])
async def test_a_spoilt_embedding_is_made_again_not_used(spoil: str) -> None:
    example = scenes.held_out("one", 3, 21, (scenes.count,))[2]
    body = {"messages": messages(example.question, [uri(example.pictures[0])]), "temperature": 0, "max_tokens": 16}
    async with (
        running(deployment(), lambda *_: None) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        texts = []
        for _ in range(2):
            response = await http.post("/v1/chat/completions", json=body)
            assert response.status_code == 200, response.text
            texts.append(response.json()["choices"][0]["message"]["content"])
            for file in _embeddings(server):
                file.unlink() if spoil == "remove" else file.write_bytes(file.read_bytes()[:-4])
        assert texts == [example.answer] * 2
        assert (await values(server))['easerve_work_redone_total{stage="prefill"}'] == 1
        await assert_nothing_is_held(server)


def _embeddings(server: Server) -> list[Path]:
    """The files of cached embeddings."""
    held = server.pipeline.cache.store
    names = {ref.name for embedding in _cached(held) for ref in embedding.tensors.values()}
    return [file for folder in Path("/dev/shm").glob("easerve-*") for file in folder.iterdir() if file.name in names]


def _cached(store: object) -> list[object]:
    return [entry.value for entry in store._entries.values()]  # type: ignore[attr-defined]
