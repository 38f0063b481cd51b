"""The built-in server under load: stage times and workers are in the report."""

from __future__ import annotations

import asyncio
from io import StringIO

from rich.console import Console

from easerve.bench.document import document
from easerve.bench.page import render
from easerve.bench.plan import Plan, Rates
from easerve.bench.run import run_bench
from easerve.bench.target import client
from easerve.bench.workloads import read_workload
from easerve.config import Deployment
from easerve.server import running


async def test_a_run_on_the_built_in_server_shows_where_its_time_goes() -> None:
    workload = read_workload("mixed", ["size=112", "words=16", "output_tokens=8", "text_share=0.4"])
    plan = Plan("mixed", workload, Rates((8.0,)), 5, requests=20, warmup=2, unloaded=4)
    async with running(Deployment(device="cpu"), lambda *_: None) as server, client(server.url, None) as http:
        report = await run_bench(plan, http, None, Console(file=StringIO()), asyncio.Event())
    found = document(report, "easerve bench")["runs"][0]
    assert found["metrics"]["all"]["completed"] == 20
    assert found["metrics"]["all"]["output_tokens"] == 160
    assert found["stages_mean_ms"]["encode"] > 0 and found["stages_mean_ms"]["decode"] > 0
    for record in report.runs[0].observed.records:  # the server's own clock agrees with the client's
        assert record.timing and record.timing["first_token"] / 1000 <= record.ttft
    assert set(found["utilisation"]) == {"encode-0", "generate-0"}
    assert "Timeline of requests" in render(report, "easerve bench")
