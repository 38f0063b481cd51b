"""`none`, `static` and `dynamic` side by side: one encode worker with local prefill on both of two cores.

    python tools/make_reference_model.py --out runs/reference-model
    python benchmarks/partition.py --model runs/reference-model --json runs/partition.json

About seven minutes on an idle machine with two cores. Shares are measured first, on pictures as large as those that are
sent (`--side`), and the table is printed: it says which batches `dynamic` encodes on one core. With pictures of 56
pixels it does; with `--side 224` the reference model needs both cores for every batch, and `dynamic` is `none`.

    none      encode and prefill compute with two threads each, so that four threads take turns on two cores
    static    encode with one thread on core 0, prefill with one on core 1, always
    dynamic   as static while a batch with a safe share is encoded; prefill with two threads otherwise

All media requests are prefilled beside their encode (s = 0). Decode has to live on core 1 too, with one thread, as two
cores are all there are: it takes from prefill's core in `static`, and from both stages in `none`. Answers are short,
so that encode and prefill are most of the work. Each server is a process tree of its own; they are asked in turns, in
every other round in reverse order, with requests that never repeat. Ratios are to `none`, round by round.

Exit status 1: tokens reached the client later than decode made them, in bunches, so that its TPOT is no time of the
server: the load generator did not get a core in time. With real-time priority, which root may take, it does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from easerve.bench.compare import Contender, Terms, compare
from easerve.bench.comparison import METRICS, Comparison, Metric, Spread
from easerve.bench.document import command_line
from easerve.bench.plan import Plan, Rates
from easerve.bench.side_by_side import comparison_document
from easerve.bench.workloads.drawn import Drawn
from easerve.config import BUILTIN, Deployment, WorkerEntry, model_folder, write_deployment
from easerve.engine.partition.options import PartitionName
from easerve.priority import NO_RIGHT, go_first
from token_pace import TokenPace

NAMES: tuple[PartitionName, ...] = ("none", "static", "dynamic")
SHARED, DECODING = "cpu:0,1", "cpu:1"
CORES = (0, 1)
WIDTH = 100  # of the table, also where there is no terminal
PROFILE_SECONDS = 30.0
SHOWN: Mapping[str, Metric] = {
    "throughput, req/s": METRICS["throughput, req/s"],
    "TTFT mean, ms": METRICS["TTFT mean, ms"],
    "TTFT P99, ms": METRICS["TTFT P99, ms"],
    "TPOT mean, ms": METRICS["TPOT mean, ms"],
    "TPOT P99, ms": METRICS["TPOT P99, ms"],
}


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = arguments.table or folder / "shares.json"
        if arguments.table is None:
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # it is bound to cores, and takes memory
                pool.submit(_measure_shares, arguments.model, arguments.side, arguments.slack, table).result()
        contenders = [_contender(one, folder, table, arguments) for one in NAMES]
        terms = Terms(arguments.rounds, CORES, Path("runs/partition"), patience=300.0)
        console = Console(stderr=True)
        if not go_first():
            console.print(NO_RIGHT)
        found = asyncio.run(compare(_plan(arguments), contenders, terms, console, asyncio.Event()))
        shares = json.loads(table.read_text())
    paces = {name: [TokenPace.of(run) for run in runs] for name, runs in found.runs.items()}
    _show(found, paces, Console(width=WIDTH))
    if arguments.json:
        document = {**comparison_document(found, command_line()), "shares": shares}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(document, indent=1, allow_nan=False))
    return 0 if all(pace.credible for several in paces.values() for pace in several) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=BUILTIN)
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second, Poisson arrivals")
    parser.add_argument("--requests", type=int, default=160, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", type=int, default=56, help="of the pictures, in pixels")
    parser.add_argument("--images", type=int, default=2, help="in each request")
    parser.add_argument("--output-tokens", type=int, default=8, help="of each answer")
    parser.add_argument("--slack", type=float, default=0.1, help="of dynamic")
    parser.add_argument("--table", type=Path, help="shares measured before, on pictures of any size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _measure_shares(model: str, side: int, slack: float, file: Path) -> None:
    """In a process of its own."""
    from easerve.policy.partition import Dynamic, SafeRange
    from easerve.profile.shares import profile_shares, share_table
    from easerve.workers.spec import parse_device

    folder = model_folder(Deployment(model=model))
    document = profile_shares(folder, parse_device(SHARED), side=side, seconds=PROFILE_SECONDS)
    document.write(file)
    console, safe = Console(), SafeRange(slack=slack)
    console.print(share_table(document, safe))
    if Dynamic(document.times.profile(), safe).collapsed:
        console.print("no batch has a safe share: dynamic is none here")


def _contender(name: PartitionName, folder: Path, table: Path, arguments: argparse.Namespace) -> Contender:
    deployment = Deployment(
        model=arguments.model,
        partition=name,
        partition_slack=arguments.slack,
        partition_table=table,
        remote_ratio=0,
        embedding_cache_gb=0,
        kv_cache_gb=0.25,
        max_model_len=2048,
        workers=(
            WorkerEntry(stages=("encode", "prefill"), device=SHARED),
            WorkerEntry(stages=("prefill",), device=DECODING),
            WorkerEntry(stages=("decode",), device=DECODING),
        ),
    )
    file = folder / f"{name}.yaml"
    write_deployment(deployment, file)
    command = shlex.join([sys.executable, "-m", "easerve", "serve", "--config", str(file)])
    return Contender(name, f"{command} --port {{port}}")


def _plan(arguments: argparse.Namespace) -> Plan:
    pictures = Drawn(
        images=arguments.images,
        size=(arguments.side, arguments.side),
        output_tokens=arguments.output_tokens,
    )
    return Plan(
        workload_name=f"{arguments.images} of {arguments.side} px",
        workload=pictures,
        load=Rates([arguments.rate]),
        seed=arguments.seed,
        requests=arguments.requests,
        unloaded=0,
    )


def _show(found: Comparison, paces: Mapping[str, list[TokenPace]], console: Console) -> None:
    """Medians over the rounds, with the lowest and the highest; each ratio says that it is one."""
    table = Table("", *NAMES, title="Median of the rounds (lowest to highest)", title_justify="left", box=SIMPLE)
    for metric, read in SHOWN.items():
        values = {name: [read(run.all) for run in runs] for name, runs in found.runs.items()}
        table.add_row(metric, *(_cell(values[name]) for name in NAMES))
        table.add_row("", "", *(_ratio(values[name], values[found.first]) for name in NAMES[1:]))
    console.print(table)
    for name, runs in found.runs.items():
        failed = sum(run.all.requests - run.all.completed for run in runs)
        lag = max(run.loop_lag_p99 for run in runs) * 1000
        console.print(
            f"{name}: {failed} requests failed; load generator up to {lag:.0f} ms late (P99)", highlight=False
        )
        for pace in paces[name]:
            if not pace.credible:
                console.print(f"[red]{name}: TPOT is not to be believed:[/] {pace}", highlight=False)


def _cell(values: Sequence[float | None]) -> str:
    found = [one for one in values if one is not None]
    return str(Spread(found)) if found else "-"


def _ratio(mine: Sequence[float | None], base: Sequence[float | None]) -> str:
    ratios = [one / other for one, other in zip(mine, base, strict=True) if one is not None and other]
    return f"times {Spread(ratios)}" if ratios else "-"


if __name__ == "__main__":
    sys.exit(main())
