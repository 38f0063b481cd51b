"""A server of timed workers: real processes and messages, and a wait where a device would compute."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from easerve.builtin import model_path, scenes
from easerve.config import Deployment, WorkerEntry, problems
from easerve.config.topology import ALL
from easerve.engine.timed.start import timed_costs
from easerve.errors import StartupError
from easerve.server import running
from tests.server.conftest import messages, uri

WORKERS = (WorkerEntry(name="worker-0", stages=ALL, device="cuda:5"),)  # as a search for a machine of GPUs writes it


@pytest.mark.parametrize("place", [{"topology": "aggregated", "device": "cpu"}, {"workers": WORKERS}])
async def test_a_timed_server_answers_as_any_other(place: dict[str, Any]) -> None:
    deployment = Deployment(engine="timed", engine_args=("hardware=h100", "tp=1"), **place)
    assert not problems(deployment)
    picture = uri(scenes.held_out("one", 1)[0].pictures[0])
    body = {"messages": messages("is there a circle ?", [picture]), "max_tokens": 9, "include_timing": True}
    async with running(deployment, lambda *_: None) as server, httpx.AsyncClient(base_url=server.url) as http:
        answer = (await http.post("/v1/chat/completions", json=body, timeout=60)).json()
        assert answer["usage"]["completion_tokens"] == 9
        assert answer["choices"][0]["finish_reason"] == "length"
        timing = answer["timing"]
        assert timing["workers"] == {"encode": ["worker-0"], "prefill": "worker-0", "decode": "worker-0"}
        assert timing["encode"] > 0 and timing["prefill"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({}, "hardware=a100"), ({"hardware": "h100", "speed": 3}, "no option speed")],
)
def test_what_a_timed_worker_cannot_be_is_said(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(StartupError, match=words):
        timed_costs(model_path(), arguments)
