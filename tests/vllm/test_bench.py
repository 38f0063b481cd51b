"""`easerve bench` by vLLM's definitions: its own function on our records, and its own client on the same streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.bench.exchange import Sender, prepare
from easerve.bench.metrics import summarise
from easerve.bench.objectives import EVERY, Objectives
from easerve.bench.record import Record
from easerve.bench.request import BodyStyle, Request, user_message
from easerve.bench.target import client
from tests.bench.fake import Fake, serving

SCRIPTS = str(Path(__file__).parents[2] / "benchmarks")
GAPS = st.floats(min_value=0.0, max_value=3.0)


@pytest.fixture(scope="module")
def figures() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        import bench_figures

        yield bench_figures


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A stream may open with a role alone and close with a reason alone; several tokens may come in a chunk."""
    sent = draw(st.floats(min_value=0.0, max_value=20.0))
    chunks = list(accumulate(draw(st.lists(GAPS, min_size=1, max_size=6)), initial=sent))[1:]
    opening, closing = draw(st.booleans()), draw(st.booleans())
    tokens = chunks[opening : len(chunks) - closing]
    amount = draw(st.integers(min_value=1, max_value=9))
    error = draw(st.sampled_from([None, None, None, "http 503"]))
    return Record(0, "text", 0, sent, sent, chunks, tokens, chunks[-1], 7, amount, error)


@settings(max_examples=60, deadline=None)
@given(
    seen=st.lists(records(), min_size=1, max_size=12),
    ttft=st.none() | st.floats(min_value=0.01, max_value=3.0),
    tpot=st.none() | st.floats(min_value=0.01, max_value=3.0),
)
def test_figures_are_those_of_vllm_s_function(
    figures: Any, seen: list[Record], ttft: float | None, tpot: float | None
) -> None:
    seconds = max(record.ended for record in seen) or 1.0
    objectives = Objectives(ttft=ttft, tpot=tpot)
    summary = asdict(summarise(seen, seconds, {EVERY: objectives} if objectives.given else None, []))
    found, expected = figures.ours(summary), figures.recomputed(seen, seconds, objectives)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert len(expected) == 10 + objectives.given


async def both(fake: Fake, tokens: int, times: int) -> tuple[list[Record], list[Any]]:
    """What our client and vLLM's make of the same answers, one after the other."""
    import aiohttp
    from vllm.benchmarks.lib.endpoint_request_func import RequestFuncInput, async_request_openai_chat_completions

    async with serving(fake):
        asked = RequestFuncInput("x", f"{fake.url}/v1/chat/completions", 7, tokens, "fake")
        async with aiohttp.ClientSession() as session:
            theirs = [await async_request_openai_chat_completions(asked, session) for _ in range(times)]
        async with client(fake.url, None) as http:
            prepared = prepare(Request([user_message("x")], tokens), BodyStyle("fake"))
            ours = [await Sender(http, 30).send(prepared, number, 0.0, lambda: 0.0) for number in range(times)]
    return ours, theirs


@pytest.mark.parametrize("opening", [True, False])
@pytest.mark.parametrize("tokens", [1, 5])
async def test_a_stream_is_read_as_vllm_s_client_reads_it(opening: bool, tokens: int) -> None:
    """In all but when: as many gaps, the same tokens, the same outcome."""
    ours, theirs = await both(Fake(first=0.01, gap=0.005, opening=opening, fail_every=2), tokens, 2)
    assert [one.error is None for one in ours] == [one.success for one in theirs] == [True, False]
    read, expected = ours[0], theirs[0]
    assert len(read.chunk_gaps) == len(expected.itl) == tokens + opening
    assert (read.output_tokens, read.prompt_tokens) == (expected.output_tokens, expected.prompt_len) == (tokens, 7)


async def test_an_error_inside_a_stream_is_an_error_to_ours_only() -> None:
    ours, theirs = await both(Fake(first=0.01, gap=0.005, break_after=2), 5, 1)
    assert (ours[0].error, theirs[0].success) == ("error in stream", True)
