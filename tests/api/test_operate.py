"""Everything beside generating: models, health, metrics, keys, ids, the schema."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import easerve
from easerve.api.options import ApiOptions
from easerve.errors import Unavailable
from tests.api.doubles import Site, make_site, user

CHAT = "/v1/chat/completions"


async def test_models(site: Site) -> None:
    async with site.client() as client:
        listed = (await client.get("/v1/models")).json()
        assert [card["id"] for card in listed["data"]] == ["tiny"]
        assert (await client.get("/v1/models/tiny")).json()["max_model_len"] == 512
        missing = await client.get("/v1/models/org/other")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


async def test_health_follows_the_pipeline_and_live_does_not(site: Site) -> None:
    async with site.client() as client:
        assert (await client.get("/health")).status_code == 200
        site.pipeline.health = Unavailable("no worker")
        sick = await client.get("/health")
        assert (await client.get("/live")).status_code == 200
        assert (await client.get("/version")).json() == {"version": easerve.__version__}
    assert sick.status_code == 503
    assert sick.headers["retry-after"]
    assert sick.json()["error"]["message"] == "no worker"


async def test_metrics_count_what_happened(site: Site) -> None:
    async with site.client() as client:
        await client.post(CHAT, json={"messages": user("hi", (28, 28))})
        await client.post(CHAT, json={"messages": []})
        await client.get("/nowhere")
        text = (await client.get("/metrics")).text
    samples = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    tokens = site.pipeline.tokens_given
    assert samples["easerve_requests_total", "/v1/chat/completions", "200"] == 1
    assert samples["easerve_requests_total", "/v1/chat/completions", "400"] == 1
    assert samples["easerve_requests_total", "404", "none"] == 1
    assert samples["easerve_time_to_first_token_seconds_count",] == 1
    assert samples["easerve_inter_token_latency_seconds_count",] == tokens - 1
    assert samples["easerve_request_duration_seconds_count", "/v1/chat/completions"] == 2
    assert samples["easerve_generation_tokens_total",] == tokens
    assert samples["easerve_prompt_tokens_total",] == len(site.pipeline.requests[0].prompt)
    assert samples["easerve_requests_in_flight",] == 1  # this one


@pytest.mark.parametrize("given", ["req-1", "a" * 128])
async def test_request_id_comes_back(site: Site, given: str) -> None:
    async with site.client() as client:
        for path in ("/live", "/nowhere"):
            assert (await client.get(path, headers={"x-request-id": given})).headers["x-request-id"] == given


@pytest.mark.parametrize("given", [None, "", "two words", "a" * 129])
async def test_request_id_is_made_up_when_there_is_no_usable_one(site: Site, given: str | None) -> None:
    async with site.client() as client:
        headers = {} if given is None else {"x-request-id": given}
        back = (await client.get("/live", headers=headers)).headers["x-request-id"]
    assert len(back) == 32


async def test_api_key(tokenizer_folder: Path) -> None:
    site = make_site(tokenizer_folder, options=ApiOptions(api_keys=("k1", "k2")))
    async with site.client() as client:
        for headers in ({}, {"authorization": "Bearer no"}, {"authorization": "k1"}, {"authorization": "Basic k1"}):
            response = await client.get("/v1/models", headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["code"] == "invalid_api_key"
            assert response.headers["x-request-id"]
        assert (await client.get("/v1/models", headers={"authorization": "Bearer k2"})).status_code == 200
        assert (await client.get("/health")).status_code == 200


async def test_docs_know_the_fields(site: Site) -> None:
    async with site.client() as client:
        assert (await client.get("/docs")).status_code == 200
        schema = (await client.get("/openapi.json")).json()
    assert schema["components"]["schemas"]["ChatRequest"]["properties"]["messages"]
    body = schema["paths"]["/v1/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["$ref"] == "#/components/schemas/CompletionRequest"
    assert "$defs" not in str(schema)


def test_the_front_end_does_not_import_torch(tokenizer_folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "import easerve.api.app; from easerve.api.text import load_codec\n"
        "codec = load_codec(Path(sys.argv[1]))\n"
        "codec.decode(codec.encode_chat([{'role': 'user', 'content': [{'type': 'text', 'text': 'hi'}]}]))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(tokenizer_folder)], check=True)
