"""One exchange on a clock of the test's own: latencies come out exactly as defined, however bytes are cut."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.bench.events import EventReader
from easerve.bench.exchange import Prepared, Sender
from easerve.bench.record import Record


def event(delta: dict[str, Any] | None, reason: str | None = None, **fields: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": reason}]
    return b"data: " + json.dumps({"choices": choices, **fields}).encode() + b"\n\n"


class Scripted(httpx.AsyncBaseTransport, httpx.AsyncByteStream):
    """Answers with pieces, each so many seconds after the one before, on a clock that only it moves."""

    def __init__(self, script: Sequence[tuple[float, bytes]]) -> None:
        self.clock = 3.0
        self._script = script

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for seconds, piece in self._script:
            self.clock += seconds
            yield piece


async def measured(script: Sequence[tuple[float, bytes]]) -> Record:
    transport = Scripted(script)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        return await Sender(http, 10).send(Prepared(b"{}", "text", 0), 0, 2.5, lambda: transport.clock)


async def test_latencies_are_defined_as_in_vllm_s_bench() -> None:
    record = await measured(
        [
            (0.5, event({"role": "assistant", "content": ""}) + event({"content": "a"})),
            (0.1, event({"content": "b"})),
            (0.3, event({"content": ""})),  # a token without text of its own
            (0.2, event({"content": "d"}) + event({}, "length")),
            (0.7, event(None, usage={"prompt_tokens": 9, "completion_tokens": 5}) + b"data: [DONE]\n\n"),
        ]
    )
    assert record.error is None
    assert record.lag == pytest.approx(0.5)
    assert record.ttft == pytest.approx(0.5)
    assert record.e2e == pytest.approx(1.1)  # the usage chunk bears no token
    assert record.tpot == pytest.approx(0.6 / 4)  # by the server's count of tokens, not by chunks
    assert record.itl == pytest.approx([0.1, 0.3, 0.2])
    assert record.chunk_gaps == pytest.approx([0, 0.1, 0.3, 0.2, 0])  # as vLLM's bench counts them
    assert (record.prompt_tokens, record.output_tokens) == (9, 5)


async def test_without_usage_chunks_that_bear_tokens_are_counted() -> None:
    record = await measured([(1, event({"role": "assistant", "content": "a"})), (1, event({"content": "b"}, "stop"))])
    assert (record.output_tokens, record.tpot) == (2, pytest.approx(1.0))


async def test_what_is_no_answer_has_a_kind() -> None:
    assert (await measured([])).error == "no token"
    assert (await measured([(1, b'data: {"error": {"message": "lost"}}\n\n')])).error == "error in stream"
    assert (await measured([(1, b"data: {nonsense\n\n")])).error == "broken stream"
    assert (await measured([(1, event({"content": "a"}))])).error == "cut short"
    for last in (event({}, "stop"), b"data: [DONE]\n\n"):
        assert (await measured([(1, event({"content": "a"})), (1, last)])).error is None


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.integers(0, 80), max_size=5))
def test_events_are_the_same_however_bytes_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    clean = [payload.replace(b"\n", b"").strip() for payload in payloads]
    stream = b"".join(b": ping\nevent: x\ndata: " + payload + b"\r\n\r\n" for payload in clean)
    places = sorted(min(cut, len(stream)) for cut in cuts)
    pieces = [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]
    reader = EventReader()
    assert [found for piece in pieces for found in reader.feed(piece)] == clean
