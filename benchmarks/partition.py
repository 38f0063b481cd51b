"""`none`, `static` and `dynamic` side by side: one encode worker with local prefill on both of two cores.

    python tools/make_reference_model.py --out runs/reference-model
    python benchmarks/partition.py --model runs/reference-model --rate 2 --requests 200 --json runs/partition.json

All media requests are prefilled beside their encode (s = 0). Decode has to share a core with them, as two cores are
all there are; what it costs is the same for all three. Each server is a process tree of its own and is asked in turns,
round after round, with requests that never repeat; the table has medians over rounds, and ratios to `none` with their
spread.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from easerve.config import BUILTIN, Deployment, WorkerEntry, write_deployment
from easerve.engine.partition.options import PartitionName

NAMES: tuple[PartitionName, ...] = ("none", "static", "dynamic")
SHARED, DECODING = "cpu:0,1", "cpu:1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=BUILTIN)
    parser.add_argument("--rate", type=float, default=2.0, help="requests a second, Poisson arrivals")
    parser.add_argument("--requests", type=int, default=100, help="of each run")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workload", default="image-heavy")
    parser.add_argument("--slack", type=float, default=0.1, help="of dynamic")
    parser.add_argument("--table", type=Path, help="profile of shares (default: each dynamic server measures at start)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        servers = [word for name in NAMES for word in ("--server", _server(name, Path(folder), arguments))]
        command = [sys.executable, "-m", "easerve", "bench", "compare", *servers]
        command += ["--rate", str(arguments.rate), "--requests", str(arguments.requests)]
        command += ["--rounds", str(arguments.rounds), "--workload", arguments.workload, "--cores", "0,1"]
        command += ["--json", str(arguments.json)] if arguments.json else []
        return subprocess.run(command, check=False).returncode


def _server(name: PartitionName, folder: Path, arguments: argparse.Namespace) -> str:
    """Its name and command, as `bench compare` takes them."""
    deployment = Deployment(
        model=arguments.model,
        partition=name,
        partition_slack=arguments.slack,
        partition_table=arguments.table,
        remote_ratio=0,
        embedding_cache_gb=0,
        max_model_len=2048,
        workers=(
            WorkerEntry(stages=("encode", "prefill"), device=SHARED),
            WorkerEntry(stages=("prefill",), device=DECODING),
            WorkerEntry(stages=("decode",), device=DECODING),
        ),
    )
    file = folder / f"{name}.yaml"
    write_deployment(deployment, file)
    return f"{name}={sys.executable} -m easerve serve --config {file} --port {{port}}"


if __name__ == "__main__":
    sys.exit(main())
