"""The command itself, in a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from easerve.bench.plan import Climb, Closed, Rates
from easerve.cli.benching import bench_app, which_load
from easerve.errors import BadRequest

from .fake import Fake, serving

NOTHING = {"rate": None, "rates": None, "sweep": False, "concurrency": None, "trace": None, "bisections": 2}


async def test_ctrl_c_ends_the_load_and_still_reports(tmp_path: Path) -> None:
    found, page = tmp_path / "out.json", tmp_path / "deep" / "out.html"
    async with serving(Fake(first=0.01, gap=0.001)) as fake:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "easerve", "bench", "--base-url", fake.url, "--rate", "50", "--requests", "5000",
            "--set", "size=56", "--set", "output_tokens=2", "--warmup", "1", "--unloaded", "0", "--seed", "7",
            "--slo-ttft", "2", "--api-key", "secret", "--json", str(found), "--html", str(page),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(120):
            while len(fake.bodies) < 20:
                await asyncio.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    document = json.loads(found.read_text())
    assert document["interrupted"] and 10 < document["runs"][0]["metrics"]["all"]["completed"] < 5000
    assert document["plan"]["seed"] == 7 and "seed 7" in told.decode()
    assert "--rate 50" in document["command"] and "secret" not in found.read_text() + page.read_text()
    assert "interrupted" in out.decode() and "<svg" in page.read_text()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--json", "{folder}"], "is a folder"),
        (["--html", "{file}/out.html"], "File exists"),
    ],
)
def test_a_file_that_cannot_be_written_is_said_before_the_load(tmp_path: Path, options: list[str], named: str) -> None:
    (tmp_path / "file").touch()
    places = {"folder": tmp_path, "file": tmp_path / "file"}
    given = [option.format(**places) for option in options]
    found = CliRunner().invoke(bench_app, ["--rate", "1", "--base-url", "http://127.0.0.1:9", *given])
    assert found.exit_code == 2
    assert named in " ".join(found.output.split())


@pytest.mark.parametrize("load", [["--rate", "0"], ["--rates", "1,-2"]])
def test_a_rate_that_is_none_is_said_before_anything_is_asked(load: list[str]) -> None:
    with pytest.raises(BadRequest, match="the rate must be above 0"):
        CliRunner().invoke(bench_app, [*load, "--base-url", "http://127.0.0.1:9"], catch_exceptions=False)


def test_exactly_one_kind_of_load_is_chosen() -> None:
    assert which_load(**{**NOTHING, "rate": 3.0}) == Rates((3.0,))  # type: ignore[arg-type]
    assert which_load(**{**NOTHING, "rates": "1,2.5"}) == Rates((1.0, 2.5), 2)  # type: ignore[arg-type]
    assert which_load(**{**NOTHING, "sweep": True}) == Climb(2)  # type: ignore[arg-type]
    assert which_load(**{**NOTHING, "concurrency": 4}) == Closed(4)  # type: ignore[arg-type]
    for wrong in ({}, {"rate": 1.0, "sweep": True}, {"rates": "1,fast"}):
        with pytest.raises(BadRequest):
            which_load(**{**NOTHING, **wrong})  # type: ignore[arg-type]
