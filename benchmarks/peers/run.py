"""EAServe beside vLLM on the same cores, row by row of docs/benchmarks.md.

    python tools/make_reference_model.py --out runs/reference-model
    python benchmarks/peers/run.py                                                   all of it, about two hours
    python benchmarks/peers/run.py --row image-heavy --rounds 1 --requests 100       one row, fewer requests
    python benchmarks/peers/run.py --quick                                           every row, to see that all works

A row's servers all run throughout, and one at a time has load. Each round has pictures and moments of its own. Results
are written to --results as soon as a row is done; --page puts the table of all results there are into a page.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import SystemRandom

from contenders import OURS, Machine
from measure import measure
from rich.console import Console
from rows import ROWS, Row
from table import show, update_page, write_row

from easerve.bench.compare import Terms
from easerve.bench.plan import Climb
from easerve.errors import EAServeError

QUICK_REQUESTS, QUICK_SECONDS = 12, 4.0


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.quick and arguments.page is not None:
        parser.error("--quick shows that all works; its figures are not for a page")
    console = Console(stderr=True)
    names = arguments.row or list(ROWS)
    failed = 0
    for number, name in enumerate(names, 1):
        row = _changed(ROWS[name], arguments)
        console.rule(f"row {number} of {len(names)}, {name}: {row.about}")
        started = time.monotonic()
        try:
            asyncio.run(_row(name, row, arguments, console))
        except EAServeError as error:
            failed += 1
            console.print(f"[red]{name}: {error.message}")
        console.print(f"{name}: took {time.monotonic() - started:.0f} s", highlight=False)
    if arguments.page is not None:
        update_page(arguments.page, arguments.results)
    return min(failed, 1)


def _changed(row: Row, arguments: argparse.Namespace) -> Row:
    row = replace(row, ours=arguments.ours or row.ours, engine=arguments.engine or row.engine)
    if arguments.quick and isinstance(row.load, Climb):
        row = replace(row, load=Climb(bisections=0), seconds=QUICK_SECONDS)
    return row


async def _row(name: str, row: Row, arguments: argparse.Namespace, console: Console) -> None:
    rounds, requests = (1, QUICK_REQUESTS) if arguments.quick else (arguments.rounds, arguments.requests)
    terms = Terms(rounds, arguments.cores, arguments.results / "logs" / name, arguments.patience)
    machine = Machine(
        model=arguments.model,
        cores=arguments.cores,
        vllm_python=arguments.vllm_python,
        engine=row.engine,
        engine_python=arguments.vllm_python if row.engine == "vllm" else Path(sys.executable),
    )
    seed = SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    stop = asyncio.Event()
    measured = await measure(row, machine, terms, seed=seed, requests=requests, console=console, stop=stop)
    command = f"python benchmarks/peers/run.py --row {name} --rounds {rounds} --requests {requests} --seed {seed}"
    command += f" --ours {row.ours} --engine {row.engine} --cores {','.join(map(str, arguments.cores))}"
    path = write_row(arguments.results, name, row, measured, command + (" --quick" if arguments.quick else ""))
    for line in show(name, measured):
        print(line, flush=True)
    console.print(f"{name}: written to {path}", highlight=False)


def _cores(text: str) -> Sequence[int]:
    return tuple(int(core) for core in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=ROWS, help="one row; may be repeated (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each server, a seed each (default: 3)")
    parser.add_argument("--requests", type=int, default=500, help="requests of a run (default: 500)")
    parser.add_argument("--seed", type=int, help="same seed, same requests (default: another each time)")
    parser.add_argument("--quick", action="store_true", help=f"one round of {QUICK_REQUESTS} requests")
    parser.add_argument("--ours", choices=OURS, help="our topology (default: the row's)")
    parser.add_argument("--engine", choices=("torch", "vllm"), help="our engine (default: the row's)")
    parser.add_argument("--cores", type=_cores, default=(0, 1), help="that all servers share (default: 0,1)")
    parser.add_argument("--model", type=Path, default=Path("runs/reference-model"), help="folder of the model")
    parser.add_argument("--vllm-python", type=Path, default=Path(".venv-vllm/bin/python"), help="vLLM's environment")
    parser.add_argument("--results", type=Path, default=Path("runs/peers"), help="folder for results and logs")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds a server may take to come up")
    parser.add_argument("--page", type=Path, help="page to put the table into, such as docs/benchmarks.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
