"""Server-sent events: the same answer in pieces, and what happens when it cannot be finished."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from easerve.errors import Overloaded, WorkerLost
from tests.api.doubles import Site, user

Json = dict[str, Any]


async def events(site: Site, path: str = "/v1/chat/completions", **body: Any) -> list[Any]:
    """The stream's JSON values, and "[DONE]" as it is."""
    async with site.client() as client:
        response = await client.post(path, json={"stream": True, **body})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.text.endswith("\n\n")
    lines = response.text[:-2].split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    return [line[6:] if line == "data: [DONE]" else json.loads(line[6:]) for line in lines]


def text_of(chunks: list[Any], index: int = 0) -> str:
    choices = [choice for chunk in chunks if chunk != "[DONE]" for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content", "") for choice in choices if choice["index"] == index)


async def test_role_then_text_then_reason_then_done(site: Site) -> None:
    chunks = await events(site, messages=user("hi"))
    assert chunks[-1] == "[DONE]"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert text_of(chunks) == "the red circle"
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]][-2:] == [None, "stop"]
    assert len({chunk["id"] for chunk in chunks[:-1]}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" and "usage" not in chunk for chunk in chunks[:-1])


async def test_usage_and_timing_come_last(site: Site) -> None:
    options = {"include_usage": True}
    chunks = await events(site, messages=user((28, 28)), stream_options=options, include_timing=True)
    *others, last, _ = chunks
    assert last["choices"] == []
    assert last["usage"]["prompt_tokens_details"] == {"cached_tokens": 0, "image_tokens": 1}
    assert last["timing"]["encode"] == 10.0
    assert all(chunk["usage"] is None and "timing" not in chunk for chunk in others)
    *others, last, _ = await events(site, messages=user("hi"), include_timing=True)
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["timing"]["total"] > 0
    assert all("timing" not in chunk for chunk in others)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(codec="utf-8"), max_size=40),
    stop=st.lists(st.text(min_size=1, max_size=3), max_size=2),
)
async def test_stream_joined_is_the_whole_answer(site: Site, text: str, stop: list[str]) -> None:
    site.says(text)
    body: Json = {"messages": user("hi"), "stop": stop}
    chunks = await events(site, **body)
    async with site.client() as client:
        whole = (await client.post("/v1/chat/completions", json=body)).json()
    assert text_of(chunks) == whole["choices"][0]["message"]["content"]
    assert chunks[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]


async def test_three_answers_in_one_stream(site: Site) -> None:
    texts = ["the red circle", "two", "hello world"]
    site.pipeline.script = lambda request, index: site.model.codec.encode(texts[index])
    chunks = await events(site, messages=user("hi"), n=3, stream_options={"include_usage": True})
    assert [text_of(chunks, index) for index in range(3)] == texts
    reasons = [c["choices"][0] for c in chunks[:-1] if c["choices"] and c["choices"][0]["finish_reason"]]
    assert sorted(reason["index"] for reason in reasons) == [0, 1, 2]
    assert sum(bool(chunk["usage"]) for chunk in chunks[:-1]) == 1


async def test_completions_stream(site: Site) -> None:
    chunks = await events(
        site, "/v1/completions", prompt=["a", "b"], n=2, stream_options={"include_usage": True}, max_tokens=50
    )
    for index in range(4):
        choices = [choice for chunk in chunks[:-1] for choice in chunk["choices"] if choice["index"] == index]
        assert "".join(choice["text"] for choice in choices) == "the red circle"
        assert choices[-1]["finish_reason"] == "stop"
    assert sum(bool(chunk["usage"]) for chunk in chunks[:-1]) == 1


async def test_logprobs_stream(site: Site) -> None:
    chunks = await events(site, messages=user("hi"), logprobs=True)
    entries = [
        entry
        for chunk in chunks[:-1]
        for choice in chunk["choices"]
        for entry in (choice["logprobs"] or {}).get("content", [])
    ]
    assert "".join(entry["token"] for entry in entries) == "the red circle"


async def test_an_error_before_the_first_token_has_its_status(site: Site) -> None:
    site.pipeline.error = Overloaded("full", retry_after=2.5)
    async with site.client() as client:
        response = await client.post("/v1/chat/completions", json={"messages": user((28, 28)), "stream": True})
    assert response.status_code == 429
    assert response.headers["retry-after"] == "3"
    assert response.json()["error"]["code"] == "overloaded"
    assert not site.buffers.live


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [(WorkerLost("generate-0 died"), "worker_lost", "503"), (RuntimeError("secret"), "internal_error", "500")],
)
async def test_an_error_in_mid_stream_is_an_event(site: Site, error: Exception, code: str, status: str) -> None:
    site.pipeline.error, site.pipeline.error_at = error, 2
    chunks = await events(site, messages=user("hi", (28, 28)))
    assert chunks[-1]["error"]["code"] == code
    assert "secret" not in json.dumps(chunks)
    assert text_of(chunks[:-1])
    assert not site.buffers.live
    async with site.client() as client:
        metrics = (await client.get("/metrics")).text
    assert f'easerve_requests_total{{endpoint="/v1/chat/completions",status="{status}"}} 1.0' in metrics
