"""Latencies that `easerve simulate` predicts from a profile of this machine, beside those that are measured on it.

    python tools/make_reference_model.py --out runs/reference-model
    python benchmarks/prediction/predict.py --page docs/results/prediction.md    about 15 minutes; needs a quiet machine
    python benchmarks/prediction/predict.py --quick                              to see that all works

For each topology: the stages are profiled on as many cores as its workers have, a server runs under three rates below
what it carries, and the same deployment, requests and moments go through virtual time: with the profile alone, and at
the pace that probes say the machine had in the run. Everything uses the same cores, load generator included. A
topology's figures, and every request of both sides, go to --results as soon as it is done.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

from beside import TOPOLOGIES, beside, cores_of, deployment, plan, simulation_of
from machine_profile import profile_apart
from pace import Profiled
from prediction_table import Figure, figures, lines, summary, update_page, write
from rich.console import Console

from easerve.bench.document import heading
from easerve.costs.profile_file import read_profile
from easerve.errors import EAServeError

QUICK_REQUESTS, QUICK_REPEATS = 8, 1


def main() -> int:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.quick and arguments.page is not None:
        parser.error("--quick shows that all works; its figures are not for a page")
    if arguments.cores:
        os.sched_setaffinity(0, arguments.cores)
    arguments.results.mkdir(parents=True, exist_ok=True)
    console, found, failed = Console(stderr=True), list[Figure](), 0
    for number, topology in enumerate(arguments.topology or TOPOLOGIES, 1):
        console.rule(f"{number}: {topology}")
        started = time.monotonic()
        try:
            found += _compare(topology, arguments, console)
        except EAServeError as error:
            failed += 1
            console.print(f"[red]{topology}: {error.message}")
        except Exception:  # whatever it was, the other topologies take minutes, and their figures are kept
            failed += 1
            console.print_exception()
        console.print(f"{topology}: took {time.monotonic() - started:.0f} s", highlight=False)
    print(summary(found))
    if arguments.page is not None:
        update_page(arguments.page, arguments.results, TOPOLOGIES)
    return min(failed, 1)


def _compare(topology: str, arguments: argparse.Namespace, console: Console) -> list[Figure]:
    (arguments.results / f"{topology}.json").unlink(missing_ok=True)  # a failure must not leave older figures
    chosen = deployment(arguments.model, topology)
    profiled = _profiled(cores_of(chosen), arguments, console)
    told = _told(profiled)
    console.print(told, highlight=False)
    requests = QUICK_REQUESTS if arguments.quick else arguments.requests
    load = plan(arguments.workload, arguments.seed, requests, arguments.warmup)
    trials = beside(chosen, profiled, load, arguments.results, console)
    found = [figure for trial in trials for figure in figures(topology, trial)]
    command = shlex.join(["python", *sys.argv])
    more = {
        **heading(command),
        "profiled": told,
        "probes": {"reference": profiled.reference, "spread": profiled.spread},
        "simulation": simulation_of(chosen, profiled.path).as_json(),
        "trials": [trial.as_json(command) for trial in trials],
    }
    for line in lines(found):
        print(line, flush=True)
    console.print(f"written to {write(arguments.results, topology, found, more)}", highlight=False)
    return found


def _profiled(cores: int, arguments: argparse.Namespace, console: Console) -> Profiled:
    """Measured now, unless an earlier topology of this run, or one before with --keep-profiles, did."""
    path: Path = arguments.results / f"profile-{cores}-cores.json"
    if not (Profiled.there(path) and (arguments.keep_profiles or cores in arguments.profiled)):
        console.print(f"profiling a worker with {cores} cores", highlight=False)
        repeats, requests = (QUICK_REPEATS, QUICK_REQUESTS) if arguments.quick else (5, 20)
        profile_apart(arguments.model, cores, path, requests=requests, repeats=repeats)
    arguments.profiled.add(cores)
    return Profiled.read(path)


def _told(profiled: Profiled) -> str:
    """What of the profile is not a stage's time, and how far the machine held still while it was taken."""
    profile = read_profile(profiled.path)
    added = profile.server
    words = [
        f"profiled on {profile.machine.device} of {profile.machine.processor}",
        f"front end and client {1e3 * added.request:.1f} ms a request, {1e3 * added.picture:.1f} ms a picture and "
        f"{1e3 * added.token:.2f} ms a token of CPU time, a worker {1e3 * added.step:.2f} ms a step",
        "standard deviation of probes meanwhile: "
        + ", ".join(f"{kind} {spread:.0%}" for kind, spread in profiled.spread.items()),
    ]
    if profile.slowdown:
        beside_others = (f"{one.stage} beside {one.beside} {one.factor:.2f}" for one in profile.slowdown)
        words.append(f"slowdown by another core: {', '.join(beside_others)}")
    return "; ".join(words)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", action="append", choices=TOPOLOGIES, help="may be repeated (default: all)")
    parser.add_argument("--model", type=Path, default=Path("runs/reference-model"), help="folder of the model")
    parser.add_argument("--workload", default="image-heavy", help="as of easerve bench (default: image-heavy)")
    parser.add_argument("--requests", type=int, default=100, help="of each run (default: 100)")
    parser.add_argument("--warmup", type=int, default=8, help="requests before each server's runs (default: 8)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same requests (default: 0)")
    parser.add_argument("--cores", type=_cores, help="to use, as in 0,1 (default: all there are)")
    parser.add_argument("--quick", action="store_true", help=f"runs of {QUICK_REQUESTS} requests")
    parser.add_argument("--keep-profiles", action="store_true", help="use the profiles that --results has")
    parser.add_argument("--results", type=Path, default=Path("runs/prediction"), help="folder for results and logs")
    parser.add_argument("--page", type=Path, help="page to put the table into: docs/results/prediction.md")
    parser.set_defaults(profiled=set())
    return parser


def _cores(text: str) -> set[int]:
    return {int(core) for core in text.split(",")}


if __name__ == "__main__":
    sys.exit(main())
