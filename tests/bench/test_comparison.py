"""Servers side by side: in turns, on the same requests, as ratios."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from easerve.bench.compare import Contender, Terms, compare
from easerve.bench.launch import launched
from easerve.bench.plan import Plan, Rates
from easerve.bench.side_by_side import comparison_document, show_comparison
from easerve.bench.workloads import read_workload
from easerve.errors import BadRequest, StartupError

from .fake import Fake, serving


async def test_rounds_take_turns_send_the_same_and_give_ratios(tmp_path: Path) -> None:
    workload = read_workload("image-heavy", ["size=56", "images=1", "words=4", "output_tokens=3"])
    plan = Plan("image-heavy", workload, Rates((40.0,)), 1, requests=10, warmup=1, unloaded=3)
    terms = Terms(rounds=2, cores=(), logs=tmp_path, patience=10)
    console = Console(file=StringIO())
    async with serving(Fake(first=0.03, gap=0.01)) as fast, serving(Fake(first=0.3, gap=0.01)) as slow:
        contenders = [Contender.of(f"fast={fast.url}"), Contender.of(f"slow={slow.url}")]
        found = await compare(plan, contenders, terms, console, asyncio.Event())
    assert [body["messages"] for body in fast.bodies[-20:]] == [body["messages"] for body in slow.bodies[-20:]]
    order = [line for line in console.file.getvalue().splitlines() if line.startswith("round")]  # type: ignore[attr-defined]
    assert order == ["round 1, fast", "round 1, slow", "round 2, slow", "round 2, fast"]
    document = json.loads(json.dumps(comparison_document(found, "x"), allow_nan=False))
    ttft = next(row for row in document["compared"] if row["metric"] == "TTFT mean, ms")
    by_round = [
        mine / base
        for mine, base in zip(ttft["values"]["slow"]["by_round"], ttft["values"]["fast"]["by_round"], strict=True)
    ]
    assert ttft["ratios"]["slow"]["by_round"] == pytest.approx(by_round)
    assert min(by_round) > 1.5
    text = StringIO()
    show_comparison(found, Console(file=text, width=120))
    assert "slow" in text.getvalue() and "TTFT mean" in text.getvalue()


SERVER = """
import http.server, os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2], "w").write(f"{child.pid} {sorted(os.sched_getaffinity(0))}")
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Models).serve_forever()
"""


async def test_a_started_server_has_its_cores_and_leaves_no_process(tmp_path: Path) -> None:
    script, told = tmp_path / "server.py", tmp_path / "told"
    script.write_text(SERVER)
    core = min(os.sched_getaffinity(0))
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{port}} {shlex.quote(str(told))}"
    async with launched(command, (core,), tmp_path / "log", 60) as url:
        assert url.startswith("http://127.0.0.1:")
        child, _, cores = told.read_text().partition(" ")
        assert cores == f"[{core}]"
        assert _lives(child)
    await _ended(child)


async def test_a_command_that_is_terminated_ends_the_servers_it_started(tmp_path: Path) -> None:
    script, told = tmp_path / "server.py", tmp_path / "told"
    script.write_text(SERVER)
    elsewhere = shlex.join([sys.executable, str(script), "0", str(told), "{port}"])  # so that it is waited for
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "easerve", "bench", "compare", "--rate", "1", "--logs", str(tmp_path / "logs")),
        *("--server", f"one={elsewhere}", "--server", "two=http://127.0.0.1:9"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    async with asyncio.timeout(60):
        while not (told.exists() and told.read_text()):
            await asyncio.sleep(0.05)
        process.terminate()
        assert await process.wait() == 143
    await _ended(told.read_text().partition(" ")[0])


async def _ended(process: str) -> None:
    for _ in range(100):
        if not _lives(process):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the server's child is left")


def _lives(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


BENCH = """
import asyncio, sys
from pathlib import Path
from easerve.bench.launch import launched

async def main():
    async with launched(sys.argv[1], (), Path(sys.argv[2]), 60):
        print("up", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nothing here can tie a server to its starter")
def test_a_started_server_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    command = f"{shlex.quote(sys.executable)} -m http.server {{port}} --bind 127.0.0.1 --directory {tmp_path}"
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "models").write_text("{}")
    words = [sys.executable, "-c", BENCH, command, str(tmp_path / "log")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None and bench.stdout.readline() == "up\n"
        (server,) = psutil.Process(bench.pid).children()
        bench.kill()
    assert psutil.wait_procs([server], timeout=20)[0]


async def test_a_server_that_does_not_come_up_says_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="log"):
        async with launched(f"{shlex.quote(sys.executable)} -c pass {{port}}", (), tmp_path / "log", 60):
            pass
    with pytest.raises(StartupError, match="there is no such program"):
        async with launched("no-such-server {port}", (), tmp_path / "log", 60):
            pass
    with pytest.raises(BadRequest, match="port"):
        async with launched("serve", (), tmp_path / "log", 60):
            pass
    with pytest.raises(BadRequest, match="NAME=URL"):
        Contender.of("http://127.0.0.1:8000")
