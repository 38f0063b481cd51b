"""`easerve bench` beside `vllm bench serve`: the same requests at the same moments, in turns, on one vLLM server.

    .venv-vllm/bin/python benchmarks/bench_check.py --model runs/reference-model

Two comparisons. Definitions: vLLM's own function makes its figures of the very requests that `easerve bench` recorded,
which no noise touches. Tools: what either reports of its own runs, which differ as any two runs do. Gaps are constant,
the only arrivals that both draw alike; before each run the server forgets what it has cached.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import httpx

from bench_figures import LATENCIES, Figures, difference, ours, theirs
from easerve.bench.comparison import Spread
from easerve.bench.launch import launched
from easerve.bench.objectives import Objectives
from easerve.bench.request import Request
from easerve.bench.workloads import read_workload
from easerve.errors import BadRequest

sys.path.append(str(Path(__file__).parent / "peers"))
from contenders import AGGREGATED, Machine, command

CLAIM = 0.03  # by which figures may differ
WARMUP = 8  # requests
VLLM_BENCH = (
    "import sys; from vllm.benchmarks.serve import add_cli_args, main; "
    "from vllm.utils.argparse_utils import FlexibleArgumentParser as Parser; "
    "parser = Parser(); add_cli_args(parser); main(parser.parse_args(sys.argv[1:]))"
)  # `vllm bench serve`, without the command's look-up of its distribution


@dataclass(frozen=True)
class Check:
    """Where the server is, what it serves, how it is asked, and where files go."""

    url: str
    arguments: argparse.Namespace

    @property
    def objectives(self) -> Objectives:
        return Objectives(ttft=self.arguments.slo_ttft, tpot=self.arguments.slo_tpot)

    def requests(self, seed: int, amount: int) -> list[Request]:
        """Raises BadRequest for what vLLM's bench cannot be given: conversations, and answers of several lengths."""
        workload = read_workload(self.arguments.workload, self.arguments.settings or ())
        asked = list(islice(workload.requests(Random(seed)), amount))
        if {len(one.messages) for one in asked} != {1} or len({one.output_tokens for one in asked}) != 1:
            raise BadRequest("choose a workload of single messages and one length of answers, such as image-heavy")
        return asked

    async def with_ours(self, name: str, asked: Sequence[Request]) -> Mapping[str, Any]:
        """The report's run."""
        lines = [{"messages": one.messages, "max_tokens": one.output_tokens} for one in asked]
        file, out = self._written(f"{name}-requests.jsonl", lines), self.arguments.results / f"{name}.json"
        given = self.arguments
        words = [sys.executable, "-m", "easerve", "bench", "--base-url", self.url, "--workload", str(file)]
        words += ["--arrivals", "constant", "--rate", f"{given.rate}", "--requests", f"{len(asked)}"]
        words += ["--warmup", "0", "--unloaded", "0", "--json", str(out)]
        words += ["--slo-ttft", f"{given.slo_ttft}", "--slo-tpot", f"{given.slo_tpot}"]
        await self._run(words, name)
        run: Mapping[str, Any] = json.loads(out.read_text())["runs"][0]
        return run

    async def with_theirs(self, name: str, asked: Sequence[Request]) -> Mapping[str, Any]:
        lines = [{"content": _parts(one)} for one in asked]
        file, given = self._written(f"{name}-requests.jsonl", lines), self.arguments
        words = [sys.executable, "-c", VLLM_BENCH, "--base-url", self.url, "--model", str(given.model)]
        words += ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--disable-tqdm"]
        words += ["--dataset-name", "custom_image", "--dataset-path", str(file), "--disable-shuffle"]
        words += ["--num-prompts", f"{len(asked)}", "--output-len", f"{asked[0].output_tokens}", "--ignore-eos"]
        words += ["--request-rate", f"{given.rate}", "--burstiness", "inf", "--temperature", "0"]
        words += ["--num-warmups", "0", "--ready-check-timeout-sec", "0", "--metric-percentiles", "99"]
        words += ["--percentile-metrics", ",".join(word for _, word in LATENCIES.values()), "--save-result"]
        words += ["--goodput", f"ttft:{1000 * given.slo_ttft}", f"tpot:{1000 * given.slo_tpot}"]
        words += ["--result-dir", str(given.results), "--result-filename", f"{name}.json"]
        await self._run(words, name)
        result: Mapping[str, Any] = json.loads((given.results / f"{name}.json").read_text())
        return result

    async def forget(self) -> None:
        """Have the server empty its caches, so that what one tool has asked is as new when the other asks it."""
        async with httpx.AsyncClient(base_url=self.url, timeout=60, trust_env=False) as http:
            for cache in ("prefix", "mm", "encoder"):
                (await http.post(f"/reset_{cache}_cache")).raise_for_status()

    def _written(self, name: str, lines: Sequence[object]) -> Path:
        path: Path = self.arguments.results / name
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return path

    async def _run(self, words: Sequence[str], name: str) -> None:
        pinned = ["taskset", "-c", ",".join(map(str, self.arguments.client_cores)), *words]
        with (self.arguments.results / f"{name}.log").open("wb") as log:
            await asyncio.to_thread(subprocess.run, pinned, stdout=log, stderr=log, check=True)


def _parts(request: Request) -> list[Mapping[str, Any]]:
    (message,) = request.messages
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


async def check(arguments: argparse.Namespace) -> None:
    os.environ["VLLM_SERVER_DEV_MODE"] = "1"  # lets a client empty the caches
    machine = Machine(arguments.model, arguments.cores, Path(sys.executable))
    server = f"{command(AGGREGATED, machine)} {shlex.join(shlex.split(arguments.server_options))}"
    both: list[tuple[Figures, Figures]] = []
    async with launched(server, arguments.cores, arguments.results / "server.log", arguments.patience) as url:
        tools = Check(url, arguments)
        await tools.with_ours("warm-up", tools.requests(arguments.seed - 1, WARMUP))
        for turn in range(arguments.rounds):
            asked, found = tools.requests(arguments.seed + turn, arguments.requests), {}
            for tool in ("easerve", "vllm") if turn % 2 == 0 else ("vllm", "easerve"):
                await tools.forget()
                run = tools.with_ours if tool == "easerve" else tools.with_theirs
                found[tool] = await run(f"{tool}-{turn}", asked)
            both.append((ours(found["easerve"]["metrics"]["all"]), theirs(found["vllm"])))
            print(f"round {turn + 1}: {difference(found['easerve'], tools.objectives):.6%} is the most by which")
            print("   our figures and those of vLLM's function differ, of the same recorded requests")
    show(both)


def show(both: Sequence[tuple[Figures, Figures]]) -> None:
    """Medians of the rounds, and ratios within them with their spread."""
    print(f"{'':24}{'easerve bench':>16}{'vllm bench':>16}   ratio")
    for name in both[0][1]:
        mine, other = (Spread([figures[name] for figures in side]) for side in zip(*both, strict=True))
        ratio = Spread([a / b if b else 1.0 for a, b in zip(mine.values, other.values, strict=True)])
        mark = "" if abs(ratio.middle - 1) <= CLAIM else f"   beyond {CLAIM:.0%}"
        print(f"{name:24}{mine.middle:16.4g}{other.middle:16.4g}   {ratio}{mark}")


def _cores(text: str) -> Sequence[int]:
    return tuple(int(core) for core in text.split(","))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a folder (tools/make_reference_model.py)")
    parser.add_argument("--workload", default="image-heavy", help="as of `easerve bench`, with one length of answers")
    parser.add_argument("--set", dest="settings", action="append", help="a field of the workload: name=value")
    parser.add_argument("--rate", type=float, default=2.0, help="requests a second")
    parser.add_argument("--requests", type=int, default=100, help="of each run")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each tool")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slo-ttft", type=float, default=2.0, help="seconds, as the next")
    parser.add_argument("--slo-tpot", type=float, default=0.05)
    parser.add_argument("--cores", type=_cores, default=(0,), help="the server's")
    parser.add_argument("--client-cores", type=_cores, default=(1,), help="the tools'")
    parser.add_argument("--server-options", default="", help="more options of vLLM's, such as --enforce-eager")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds the server may take to come up")
    parser.add_argument("--results", type=Path, default=Path("runs/bench-check"), help="folder for results and logs")
    arguments = parser.parse_args()
    arguments.results.mkdir(parents=True, exist_ok=True)
    asyncio.run(check(arguments))


if __name__ == "__main__":
    main()
