"""Load on a server whose times are known: every figure comes out as its definition says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from math import nan
from pathlib import Path

import pytest
from rich.console import Console

from easerve.bench.document import document
from easerve.bench.metrics import summarise
from easerve.bench.objectives import EVERY, Objectives
from easerve.bench.page import render
from easerve.bench.plan import Closed, Load, Plan, Rates
from easerve.bench.record import Record
from easerve.bench.report import Report
from easerve.bench.run import run_bench
from easerve.bench.table import show
from easerve.bench.target import client
from easerve.bench.workloads import read_workload
from easerve.errors import BadRequest, EAServeError, Unavailable

from .fake import Fake, serving

TOKENS = 6


def plan(load: Load, **fields: object) -> Plan:
    workload = read_workload("mixed", ["size=56", "words=4", f"output_tokens={TOKENS}"])
    given: dict[str, object] = {"requests": 20, "warmup": 1, "unloaded": 6, **fields}
    return Plan("mixed", workload, load, 3, **given)  # type: ignore[arg-type]


async def bench(fake: Fake, plan: Plan, stop: asyncio.Event | None = None) -> Report:
    async with serving(fake), client(fake.url + "/v1", None) as http:
        return await run_bench(plan, http, None, Console(file=StringIO()), stop or asyncio.Event())


@pytest.mark.parametrize(("opening", "usage"), [(True, True), (False, False)])
async def test_no_latency_is_shorter_than_the_server_s(opening: bool, usage: bool) -> None:
    """The server's sleeps are lower bounds; what is exact is in test_exchange.py, on a clock of its own."""
    fake = Fake(first=0.1, gap=0.02, opening=opening, usage=usage)
    report = await bench(fake, plan(Rates((40.0,)), unloaded=0))
    found = report.runs[0].all
    assert found.completed == found.requests == 20
    assert found.ttft and found.tpot and found.itl and found.e2e
    for record in report.runs[0].observed.records:
        assert record.ttft > 0.099 and record.e2e > 0.199
        assert record.e2e <= record.ended - record.sent
    assert found.itl.count == 20 * (TOKENS - 1)  # neither the opening nor the closing chunk is a token
    assert found.output_tokens == 20 * TOKENS
    assert found.prompt_tokens == (20 * 7 if usage else 0)
    assert found.output_throughput == pytest.approx(TOKENS * found.request_throughput)


def record(ttft: float, tpot: float, tokens: int, error: str | None = None) -> Record:
    """Sent at 1."""
    times = [1 + ttft + tpot * place for place in range(tokens)]
    return Record(0, "text", 0, 1.0, 1.0, times, times, times[-1], 7, tokens, error)


def test_goodput_counts_requests_within_all_objectives_and_errors_as_misses() -> None:
    records = [
        record(0.5, 0.02, 11),
        record(0.5, 0.08, 11),  # too slow between tokens
        record(1.5, 0.02, 11),  # too late
        record(0.9, 0.9, 1),  # one token: no TPOT
        record(0.1, 0.01, 11, "http 503"),
    ]
    found = summarise(records, 10.0, {EVERY: Objectives(ttft=1.0, tpot=0.05)}, [{EVERY: Objectives(e2e=0.75)}])
    assert found.good and found.good.goodput == pytest.approx(0.2) and found.good.share == pytest.approx(0.4)
    assert found.tiers[0].share == pytest.approx(0.2)
    assert found.request_throughput == pytest.approx(0.4)
    assert found.tpot and found.tpot.count == 3
    assert found.errors == {"http 503": 1}


def test_percentiles_lie_between_the_nearest_values() -> None:
    found = summarise([record(value / 100, 0, 1) for value in range(1, 102)], 1.0, None, []).ttft
    assert found and (found.p50, found.p90, found.p99) == pytest.approx((0.51, 0.91, 1.0))


async def test_tiers_are_multiples_of_the_unloaded_latency_of_each_modality() -> None:
    report = await bench(Fake(first=0.05, gap=0.01), plan(Rates((20.0,))))
    assert set(report.unloaded) == {"all", "image", "text"}
    widest = report.tiers[-1]["image"]
    assert widest.ttft == pytest.approx(12 * report.unloaded["image"].ttft)
    assert widest.tpot == pytest.approx(6 * (report.unloaded["image"].tpot or 0))
    assert set(report.runs[0].groups) == {"all", "image", "text"}
    shares = [tier.share for tier in report.runs[0].all.tiers]
    assert shares == sorted(shares)


async def test_errors_are_counted_by_kind() -> None:
    report = await bench(Fake(first=0.01, gap=0.001, fail_every=4), plan(Rates((100.0,)), unloaded=0, warmup=3))
    assert report.runs[0].all.errors == {"http 503": 5}  # of requests 4 to 23
    late = await bench(Fake(first=0.6), plan(Rates((100.0,)), unloaded=0, warmup=0, timeout=0.2))
    assert late.runs[0].all.errors == {"timeout": 20}
    assert late.runs[0].all.ttft is None
    broken = await bench(Fake(first=0.01, gap=0.001, break_after=3), plan(Rates((100.0,)), unloaded=0, warmup=0))
    assert broken.runs[0].all.errors == {"error in stream": 20}


async def test_a_server_that_answers_nothing_ends_the_bench_with_its_words() -> None:
    with pytest.raises(EAServeError, match="no encoder left"):
        await bench(Fake(fail_every=1), plan(Rates((1.0,))))
    async with client("http://127.0.0.1:9", None) as http:
        with pytest.raises(Unavailable):
            await run_bench(plan(Rates((1.0,))), http, None, Console(file=StringIO()), asyncio.Event())


async def test_open_loop_does_not_wait_and_closed_loop_does() -> None:
    open_fake, closed_fake = Fake(first=0.3, gap=0.001), Fake(first=0.02, gap=0.001)
    report = await bench(open_fake, plan(Rates((200.0,)), unloaded=0, warmup=0))
    assert open_fake.most_in_flight > 3
    sent = [one.scheduled for one in report.runs[0].observed.records]
    assert sent[-1] == pytest.approx(0.1)
    closed = await bench(closed_fake, plan(Closed(3), unloaded=0, warmup=0))
    assert closed_fake.most_in_flight == 3
    assert closed.runs[0].all.completed == 20


async def test_own_requests_keep_the_rate_however_few_they_are(tmp_path: Path) -> None:
    lines = tmp_path / "own.jsonl"
    lines.write_text('{"prompt": "a", "output_tokens": 2}\n' * 3)
    few = replace(plan(Rates((50.0,)), requests=100, unloaded=0, warmup=0), workload=read_workload(str(lines)))
    report = await bench(Fake(first=0.01, gap=0.001), few)
    assert [one.scheduled for one in report.runs[0].observed.records][2:] == [pytest.approx(3 / 50)]


@pytest.mark.parametrize(
    "wrong", [{"seconds": -1.0}, {"seconds": 0.0}, {"timeout": nan}, {"objectives": Objectives(ttft=-1.0)}]
)
def test_times_are_above_nothing(wrong: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match="above 0 seconds"):
        plan(Rates((1.0,)), **wrong)


async def test_a_duration_ends_a_closed_loop() -> None:
    report = await bench(Fake(first=0.02, gap=0.001), plan(Closed(2), requests=None, seconds=0.5, unloaded=0, warmup=0))
    run = report.runs[0]
    assert run.all.completed > 2
    assert max(one.scheduled for one in run.observed.records) < 0.5


async def test_no_two_loads_of_a_bench_send_the_same_picture() -> None:
    fake = Fake(first=0.005, gap=0.001)
    await bench(fake, plan(Rates((200.0, 400.0))))
    sent = [
        part["image_url"]["url"]
        for body in fake.bodies
        if isinstance(body["messages"][0]["content"], list)
        for part in body["messages"][0]["content"]
        if part["type"] == "image_url"
    ]
    assert len(sent) > 40
    assert len(set(sent)) == len(sent)


async def test_a_stop_reports_what_was_done_and_drops_what_is_in_flight() -> None:
    fake, stop = Fake(first=0.3), asyncio.Event()

    async def stop_after_some_answers() -> None:
        while len(fake.bodies) - fake.in_flight < 4:
            await asyncio.sleep(0.05)
        stop.set()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(stop_after_some_answers())
        report = await bench(fake, plan(Rates((20.0,)), requests=1000, unloaded=0, warmup=0), stop)
    assert report.interrupted
    assert 0 < report.runs[0].all.completed < 1000
    assert report.runs[0].all.errors == {}


async def test_a_generator_that_is_late_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    fake = Fake(first=0.01, gap=0.001)
    original: Callable[..., object] = fake.handle

    async def busy(*streams: object) -> None:
        time.sleep(0.1)  # noqa: ASYNC251  # in the generator's own loop
        await original(*streams)  # type: ignore[misc]

    monkeypatch.setattr(fake, "handle", busy)
    report = await bench(fake, plan(Rates((100.0,)), unloaded=0, warmup=0))
    assert report.runs[0].slow_client
    assert report.runs[0].lag_p99 > 0.05


async def test_a_generator_that_notes_tokens_late_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    report = await bench(Fake(first=0.01, gap=0.002), plan(Rates((20.0,)), unloaded=0, warmup=0))
    [run] = report.runs
    assert run.all.itl is not None
    for overslept, slow in ((run.all.itl.mean / 2, False), (run.all.itl.mean * 2, True)):
        observed = replace(run.observed, overslept=[overslept] * 100, records=run.observed.records[:1])
        assert replace(run, observed=observed).slow_client == slow


async def test_every_output_tells_the_same_and_the_page_needs_nothing_else() -> None:
    report = await bench(Fake(first=0.01, gap=0.001, fail_every=4), plan(Rates((50.0, 100.0)), warmup=0))
    text = StringIO()
    show(report, Console(file=text, width=110))
    page = render(report, "easerve bench <x>")
    found = json.loads(json.dumps(document(report, "easerve bench"), allow_nan=False))
    assert {run["metrics"]["all"]["requests"] for run in found["runs"]} == {20}
    assert found["plan"]["seed"] == 3 and len(found["runs"][0]["requests"]) == 20
    assert "http 503" in text.getvalue() and "http 503" in page
    assert "easerve bench &lt;x&gt;" in page
    assert "<svg" in page and "src=" not in page and "<script" not in page and "<link" not in page
