"""Profiles a model on cores of this machine: its stages, how other cores slow them down, and what a server adds; and
reads probes meanwhile, so that sizes that are measured one after the other fit each other.

A process of its own each time, since profiling binds its process to the cores.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from pace import Profiled
from rich.console import Console

from easerve.costs.profile_file import Profile, write_profile
from easerve.errors import StartupError
from easerve.profile.plan import Plan
from easerve.profile.probe import probe
from easerve.profile.progress import ProfileProgress
from easerve.profile.run import run_profile
from easerve.profile.steady import Steady
from easerve.simulate.measuring import with_surroundings
from easerve.workers.spec import Device, parse_device

# about what the workloads of this comparison ask for, so that it is quick; `easerve profile` takes more
SIZES = Plan(
    sides=(56, 112, 224),
    batches=(1, 2, 4, 8),
    new=(16, 64, 128, 192, 256, 384, 512),
    contexts=(64, 256, 512),
    sequences=(1, 2, 4, 8, 16),
    patience=4.0,
)


def profile_apart(model: Path, cores: int, out: Path, *, requests: int, repeats: int) -> None:
    """Of a worker with so many cores, into a file, by this script. Raises StartupError if that fails."""
    words = [sys.executable, __file__, "--model", str(model), "--device", f"cpu:0-{cores - 1}", "--out", str(out)]
    words += ["--requests", str(requests), "--repeats", str(repeats)]
    threads = {"OMP_NUM_THREADS": str(cores), "MKL_NUM_THREADS": str(cores), "TRANSFORMERS_VERBOSITY": "error"}
    if subprocess.run(words, env={**os.environ, **threads}, check=False).returncode:
        raise StartupError(f"profiling {model} on {cores} cores failed; the reason is above")


def measured(model: Path, device: Device, out: Path, requests: int, repeats: int, console: Console) -> Profiled:
    """Written to `out`."""
    plan, readings = replace(SIZES, repeats=repeats), list[Profiled]()

    def stages() -> Profile:
        with ProfileProgress(console, plan) as progress, probe(model, device) as read:
            steady = Steady(read, progress.measured)
            found = run_profile(model, device, plan=plan, engine="torch", report=steady.measured)
        readings.append(Profiled(out, steady.reference, steady.spread))
        return steady.corrected(found)

    console.print("measuring what a server adds, and how cores slow each other down", highlight=False)
    write_profile(with_surroundings(stages, model, device, requests), out)
    (profiled,) = readings
    profiled.write()
    return profiled


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--device", type=parse_device, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--requests", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    measured(given.model, given.device, given.out, given.requests, given.repeats, Console(stderr=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
