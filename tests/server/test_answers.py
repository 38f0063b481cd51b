"""Answers of a whole server: right, the same in every topology and under load, through the official client."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from openai import AsyncOpenAI, OpenAI

from easerve.builtin import scenes
from easerve.client import ask
from easerve.server import Server

from .conftest import messages, uri
from .traffic import answers

pytestmark = pytest.mark.asyncio(loop_scope="session")


def examples(one: int, two: int, text: int) -> list[scenes.Example]:
    pictures = scenes.held_out("one", one, 5) + scenes.held_out("two", two, 5)
    return pictures + scenes.held_out("sum", text, 5)


async def test_both_topologies_give_the_same_and_mostly_right_answers(colocated: Server, aggregated: Server) -> None:
    questions = examples(24, 8, 8)
    split = await answers(colocated, questions, 4)
    together = await answers(aggregated, questions, 4)
    assert split == together
    right = sum(answer == example.answer for answer, example in zip(split, questions, strict=True))
    assert right >= 0.95 * len(questions)


async def test_300_requests_at_concurrency_32_answer_as_one_by_one(colocated: Server) -> None:
    questions = examples(40, 20, 0)
    alone = await answers(colocated, questions, 1)
    order = [(7 * index) % len(questions) for index in range(300)]
    crowded = await answers(colocated, [questions[index] for index in order], 32)
    assert crowded == [alone[index] for index in order]
    assert colocated.pipeline.admission.in_flight == 0


async def test_repeated_and_adjacent_pictures_keep_their_places(colocated: Server) -> None:
    first, second = (example.pictures[0] for example in scenes.held_out("one", 2, 11))
    async with httpx.AsyncClient(base_url=colocated.url, timeout=60) as http:

        async def describe(which: str, *pictures: object) -> str:
            urls = [uri(picture) for picture in pictures]  # type: ignore[arg-type]
            return (await ask(http, colocated.model, f"describe the {which} picture .", urls, 64)).text

        same = await describe("first", first, first)
        assert same == await describe("second", first, first)
        assert await describe("second", second, first) == same
        assert await describe("first", second, first) != same


async def test_the_official_client_sync_async_and_streaming_agree(colocated: Server) -> None:
    example = scenes.held_out("one", 4, 3)[3]
    body = {
        "model": colocated.model,
        "messages": messages(example.question, [uri(example.pictures[0])]),
        "temperature": 0,
        "max_tokens": 64,
    }

    def synchronous() -> str | None:
        with OpenAI(base_url=f"{colocated.url}/v1", api_key="none") as client:
            return client.chat.completions.create(**body).choices[0].message.content  # type: ignore[call-overload]

    async with AsyncOpenAI(base_url=f"{colocated.url}/v1", api_key="none") as client:
        whole = await client.chat.completions.create(**body)  # type: ignore[call-overload]
        stream = await client.chat.completions.create(**body, stream=True, stream_options={"include_usage": True})  # type: ignore[call-overload]
        text, usage = "", None
        async for chunk in stream:
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = chunk.usage or usage
        completion = await client.completions.create(model=colocated.model, prompt="what is", max_tokens=3)
        models = await client.models.list()
    assert text == whole.choices[0].message.content == await asyncio.to_thread(synchronous)
    assert usage.prompt_tokens_details.cached_tokens >= 16, "the same prompt is not prefilled again"
    usage.prompt_tokens_details.cached_tokens = whole.usage.prompt_tokens_details.cached_tokens
    assert usage == whole.usage
    assert whole.usage.prompt_tokens > 20, "picture tokens count"
    assert completion.usage.completion_tokens <= 3
    assert [model.id for model in models.data] == [colocated.model]


async def test_timing_names_every_stage_and_who_ran_it(colocated: Server) -> None:
    example = scenes.held_out("one", 1)[0]
    async with httpx.AsyncClient(base_url=colocated.url, timeout=60) as http:
        timing = (await ask(http, colocated.model, example.question, [uri(example.pictures[0])], 8)).timing
    stages = ["decode_media", "encode_queue", "encode", "transfer", "prefill_queue", "prefill"]
    assert all(timing[stage] >= 0 for stage in stages)
    assert sum(timing[stage] for stage in stages) <= timing["first_token"] <= timing["total"]
    assert timing["encode"] > 0
    assert timing["prefill"] > 0
    assert timing["workers"] == {"encode": ["encode-0"], "prefill": "generate-0", "decode": "generate-0"}


async def test_seeded_sampling_repeats_and_n_gives_different_answers(
    http: httpx.AsyncClient, colocated: Server
) -> None:
    body = {
        "model": colocated.model,
        "messages": messages("what is one plus", []),
        "temperature": 2.0,
        "seed": 7,
        "n": 4,
        "max_tokens": 12,
        "ignore_eos": True,
    }
    first, second = [(await http.post("/v1/chat/completions", json=body)).json() for _ in range(2)]
    texts = [choice["message"]["content"] for choice in first["choices"]]
    assert texts == [choice["message"]["content"] for choice in second["choices"]]
    assert len(set(texts)) > 1
    assert first["usage"]["completion_tokens"] == 48
