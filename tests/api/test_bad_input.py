"""Whatever comes in, the answer is OpenAI's error shape with the right status, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from easerve.api.options import ApiOptions
from easerve.api.schema import ChatRequest, CommonFields, CompletionRequest
from easerve.errors import Unavailable
from tests.api.doubles import Rules, Site, make_site, make_tokenizer, user

CHAT = "/v1/chat/completions"
HI = user("hi")


async def refused(site: Site, body: Any = None, *, path: str = CHAT, **request: Any) -> tuple[int, dict[str, Any]]:
    """(status, error) of a request that must be refused; afterwards the server still answers."""
    async with site.client() as client:
        content = {"json": body} if body is not None else {}
        response = await client.post(path, **content, **request)
        assert response.status_code >= 400
        assert response.headers["x-request-id"]
        answer = response.json()
        assert set(answer) == {"error"}
        assert set(answer["error"]) == {"message", "type", "param", "code"}
        site.pipeline.error = None
        fine = await client.post(CHAT, json={"messages": HI})
        assert fine.status_code == 200
    assert not site.buffers.live
    return response.status_code, answer["error"]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"nonsense", b'{"messages": [', b"[1, 2]", b"null", b'{"a": NaN}', b"\xff\xfe", b'{"a": "\\ud800"}',
        b"[" * 100_000, b'"text"',
    ],
)  # fmt: skip
async def test_malformed_json(site: Site, content: bytes) -> None:
    status, error = await refused(site, content=content)
    assert status == 400
    assert error["code"] == "invalid_json"


WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": "robot", "content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"content": "hi"}]}, "messages[0].role"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"text": "hi"}]}]}, "messages[0].content[0].type"),
    ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]}, "messages[0].content[0].text"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].image_url"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].image_url.url",
    ),
    (
        {"messages": [*HI, {"role": "user", "content": ["x", {"type": "image_url", "image_url": {"url": 7}}]}]},
        "messages[1].content[0]",
    ),
    (
        {
            "messages": [
                *HI,
                *user("x", "y"),
                *[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": 7}}]}],
            ]
        },
        "messages[2].content[0].image_url.url",
    ),
    ({"messages": HI, "temperature": -1}, "temperature"),
    ({"messages": HI, "temperature": 2.1}, "temperature"),
    ({"messages": HI, "temperature": "hot"}, "temperature"),
    ({"messages": HI, "top_p": 0}, "top_p"),
    ({"messages": HI, "top_p": 1.5}, "top_p"),
    ({"messages": HI, "top_k": -2}, "top_k"),
    ({"messages": HI, "min_p": 2}, "min_p"),
    ({"messages": HI, "repetition_penalty": 0}, "repetition_penalty"),
    ({"messages": HI, "presence_penalty": 3}, "presence_penalty"),
    ({"messages": HI, "frequency_penalty": -3}, "frequency_penalty"),
    ({"messages": HI, "max_tokens": 0}, "max_tokens"),
    ({"messages": HI, "max_tokens": "9"}, "max_tokens"),
    ({"messages": HI, "max_tokens": 1.5}, "max_tokens"),
    ({"messages": HI, "max_completion_tokens": 0}, "max_completion_tokens"),
    ({"messages": HI, "max_tokens": 5, "min_tokens": 6}, "min_tokens"),
    ({"messages": HI, "n": 0}, "n"),
    ({"messages": HI, "n": 129}, "n"),
    ({"messages": HI, "seed": 2**70}, "seed"),
    ({"messages": HI, "stop": ""}, "stop"),
    ({"messages": HI, "stop": ["a", 1]}, "stop[1]"),
    ({"messages": HI, "stop": 5}, "stop"),
    ({"messages": HI, "stop_token_ids": ["a"]}, "stop_token_ids[0]"),
    ({"messages": HI, "stream": "yes"}, "stream"),
    ({"messages": HI, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"messages": HI, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ({"messages": HI, "top_logprobs": 2}, "top_logprobs"),
    ({"messages": HI, "model": 5}, "model"),
    ({"messages": HI, "chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs"),
    ({"messages": HI, "continue_final_message": True}, "continue_final_message"),
]


@pytest.mark.parametrize(("body", "param"), WRONG_FIELDS)
async def test_wrong_fields_are_named(site: Site, body: dict[str, Any], param: str) -> None:
    status, error = await refused(site, body)
    assert status == 400
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert param.partition("[")[0] in error["message"]


async def test_messages_name_the_value_and_what_is_possible(site: Site) -> None:
    _, error = await refused(site, {"messages": [{"role": "user", "content": [{"type": "video_url"}]}]})
    assert error["message"] == "messages[0].content[0].type: input should be 'text' or 'image_url', not \"video_url\""
    _, error = await refused(site, {"messages": HI, "temperature": 3})
    assert error["message"] == "temperature: input should be less than or equal to 2, not 3"
    _, error = await refused(site, {"messages": [5]})
    assert error["message"] == "messages[0]: input should be an object, not 5"
    _, error = await refused(site, {"messages": []})
    assert error["message"] == "messages: list should have at least 1 item, not 0"


@pytest.mark.parametrize(
    "field",
    [
        {"tools": [{"type": "function"}]},
        {"tools": [{"type": "function"}], "tool_choice": "required"},
        {"tool_choice": {"type": "function"}},
        {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_object"}},
        {"logit_bias": {"5": 1}},
        {"best_of": 2},
        {"audio": {"voice": "alloy"}},
        {"modalities": ["text", "audio"]},
        {"echo": True},
        {"chat_template": "x"},
        {"web_search_options": {}},
        {"bad_words": ["no"]},
        {"mm_processor_kwargs": {"max_pixels": 784}},
        {"truncate_prompt_tokens": 5},
    ],
)
async def test_unsupported_features_are_refused(site: Site, field: dict[str, Any]) -> None:
    status, error = await refused(site, {"messages": HI, **field})
    assert status == 400
    assert error["code"] == "unsupported_parameter"
    assert error["param"] in field
    assert "not supported" in error["message"]


async def test_harmless_and_unknown_fields_are_accepted(site: Site) -> None:
    body = {
        "messages": HI, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}, "logit_bias": {},
        "best_of": 1, "modalities": ["text"], "audio": None, "echo": False, "store": True, "metadata": {"a": "b"},
        "user": "me", "stop": None, "max_tokens": None, "seed": None, "n": 1, "surprise": [1],
    }  # fmt: skip
    async with site.client() as client:
        assert (await client.post(CHAT, json=body)).status_code == 200


def optional_fields(kind: type[CommonFields]) -> dict[str, None]:
    return {name: None for name, field in kind.model_fields.items() if not field.is_required()}


async def test_null_is_as_good_as_absent(site: Site) -> None:
    """The schemas of OpenAI and vLLM allow null for most fields, and clients send what they leave open as null."""
    chat = optional_fields(ChatRequest) | {"messages": [{"name": None, "tool_calls": None, **HI[0]}]}
    completion = optional_fields(CompletionRequest) | {"prompt": "hi"}
    async with site.client() as client:
        assert (await client.post(CHAT, json=chat)).status_code == 200
        assert (await client.post(CHAT, json={**chat, "stream_options": {"include_usage": None}})).status_code == 200
        assert (await client.post("/v1/completions", json=completion)).status_code == 200


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"), ("", "prompt"), ([], "prompt"), ({}, "prompt"), ([1.5], "prompt"), ([True], "prompt"),
        ([[]], "prompt"),
        (["a", [1]], "prompt"), ([5, 100_000], "prompt"), ([-1], "prompt"), (["a", ""], "prompt[1]"),
        ("a <|image_pad|>", "prompt"), ("the " * 600, "prompt"),
    ],
)  # fmt: skip
async def test_wrong_prompts(site: Site, prompt: Any, param: str) -> None:
    status, error = await refused(site, {"prompt": prompt}, path="/v1/completions")
    assert status == 400
    assert error["param"] == param


async def test_unknown_model(site: Site) -> None:
    status, error = await refused(site, {"model": "gpt-9", "messages": HI})
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert "served: tiny" in error["message"]


async def test_unknown_route_and_wrong_method(site: Site) -> None:
    status, error = await refused(site, {}, path="/v1/nothing")
    assert (status, error["code"]) == (404, "not_found")
    async with site.client() as client:
        response = await client.get(CHAT)
    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.json()["error"]["code"] == "method_not_allowed"


async def test_prompt_longer_than_the_context(site: Site) -> None:
    status, error = await refused(site, {"messages": user("two " * 600)})
    assert (status, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert "512" in error["message"]
    assert site.media.calls == 0


async def test_answer_longer_than_the_context(site: Site) -> None:
    status, error = await refused(site, {"messages": HI, "max_tokens": 512})
    assert (status, error["code"], error["param"]) == (400, "context_length_exceeded", "max_tokens")


async def test_pictures_that_fill_the_context(site: Site) -> None:
    status, error = await refused(site, {"messages": user("what", (28 * 30, 28 * 30))})
    assert (status, error["code"]) == (400, "context_length_exceeded")
    assert "the pictures fill 900 tokens" in error["message"]
    assert not site.buffers.live


async def test_too_many_pictures(tokenizer_folder: Path) -> None:
    site = make_site(tokenizer_folder, options=ApiOptions(limit_images=2))
    status, error = await refused(site, {"messages": user(*[(28, 28)] * 3)})
    assert (status, error["code"]) == (400, "too_many_images")
    assert "the limit is 2" in error["message"]
    assert site.media.calls == 0


@pytest.mark.parametrize("size", ["broken", "2x9"])
async def test_bad_pictures_are_named(site: Site, size: str) -> None:
    content = [{"type": "image_url", "image_url": "28x28"}, {"type": "image_url", "image_url": {"url": size}}]
    status, error = await refused(site, {"messages": [{"role": "user", "content": content}]})
    assert (status, error["param"]) == (400, "messages[0].content[1].image_url.url")


async def test_no_chat_template(tmp_path: Path) -> None:
    site = make_site(make_tokenizer(tmp_path, template=None))
    async with site.client() as client:
        response = await client.post(CHAT, json={"messages": HI})
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "no_chat_template"
        assert (await client.post("/v1/completions", json={"prompt": "hi"})).status_code == 200


async def test_a_template_that_refuses(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}x{% endfor %}"
    )
    site = make_site(make_tokenizer(tmp_path, template=template))
    status, error = await refused(site, {"messages": [{"role": "tool", "content": "x"}]})
    assert (status, error["code"]) == (400, "chat_template")
    assert "no tools here" in error["message"]
    status, error = await refused(site, {"messages": user((28, 28))})
    assert (status, error["code"]) == (400, "placeholder_mismatch")


async def test_a_placeholder_that_is_no_special_token_cannot_be_injected(tmp_path: Path) -> None:
    site = make_site(make_tokenizer(tmp_path))
    word = site.model.codec.encode("zzz")
    site = make_site(tmp_path, rules=Rules(tmp_path, image_token_id=word[0]))
    status, error = await refused(site, {"messages": user("zzz")})
    assert (status, error["code"]) == (400, "placeholder_mismatch")


async def test_body_over_the_limit(tokenizer_folder: Path) -> None:
    site = make_site(tokenizer_folder, options=ApiOptions(max_body_bytes=1000))
    status, error = await refused(site, {"messages": user("x" * 2000)})
    assert (status, error["code"]) == (413, "body_too_large")
    read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(100):
            read += 1
            yield b"x" * 100

    status, error = await refused(site, content=pieces())
    assert (status, error["code"]) == (413, "body_too_large")
    assert read <= 12


async def test_a_large_body_is_parsed(site: Site) -> None:
    async with site.client() as client:
        body = {"messages": HI, "padding": "x" * 600_000}
        assert (await client.post(CHAT, json=body)).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
async def test_unexpected_exceptions_leak_nothing(site: Site, stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    site.pipeline.error = RuntimeError("secret path")
    status, error = await refused(site, {"messages": user((28, 28)), "stream": stream}, headers={"x-request-id": "r-7"})
    assert (status, error["code"], error["type"]) == (500, "internal_error", "server_error")
    assert "secret" not in json.dumps(error)
    assert "r-7" in error["message"]
    assert "request r-7 failed" in caplog.text
    assert "secret path" in caplog.text


async def test_unavailable_says_when_to_retry(site: Site) -> None:
    site.pipeline.error = Unavailable("no encode worker is alive")
    async with site.client() as client:
        response = await client.post(CHAT, json={"messages": HI})
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"


async def test_a_pipeline_that_ends_too_early_is_an_error(site: Site) -> None:
    whole = site.pipeline.script
    site.pipeline.script = lambda request, index: whole(request, index) if index else []
    site.pipeline.stop_token = None
    async with site.client() as client:
        response = await client.post(CHAT, json={"messages": HI, "n": 2})
    assert response.status_code == 500
    assert "ended before the answer did" in response.json()["error"]["message"]
