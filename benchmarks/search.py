"""HAS beside trying everything, random and coordinate search, in virtual time, on workloads like the paper's.

    python benchmarks/search.py
    python benchmarks/search.py image video --load 1.5
    python benchmarks/search.py --seeds 20

The grid is coarse, so that everything can be tried. Trials are kept in --studies: run it again to go on. On further
seeds (of requests, arrivals and sampler) HAS is held against the whole rate, which nothing can exceed. Only where it
does not reach that is everything tried there too, and what stage one kept and the other methods are held against it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.workloads import read_workload
from easerve.config import Deployment
from easerve.search.allocation import Allocation
from easerve.search.deploying import Machine
from easerve.search.explore import Tried
from easerve.search.methods import Method
from easerve.search.outcome import rank
from easerve.search.prune import Verdict, kept, prune
from easerve.search.question import Prepared, Question
from easerve.search.space import Space
from easerve.search.study import Study
from easerve.search.tuning import refine

ANSWER = "output_tokens=128"
# model, hardware, workload and its settings, requests a second: a load of 0.95 for the best-balanced allocation
CASES: dict[str, tuple[str, str, str, list[str], float]] = {
    "image": ("llava-v1.6-34b", "a100", "image-heavy", ["images=2", "size=672x672", ANSWER], 3.0),
    "image-ada": ("llava-v1.6-34b", "rtx6000ada", "image-heavy", ["images=2", "size=672x672", ANSWER], 1.36),
    "video": ("qwen2.5-vl-32b", "a100", "image-heavy", ["images=16", "size=448x448", ANSWER], 4.15),
    "audio": ("ultravox-27b", "a100", "audio", ["words=1024", ANSWER], 17.6),
}
SPANS = (1, 2, 4)  # the paper's are 2 and 4
COARSE = {"batches": (1, 8), "ratios": (0.25, 0.5, 0.75, 1.0), "rules": ("greedy", "gap")}
METHODS: tuple[Method, ...] = ("exhaustive", "has", "random", "coordinate")
RIVALS: tuple[Method, ...] = ("random", "coordinate")
REQUESTS = 120
CLOSE = 0.99


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", nargs="*", help=f"{', '.join(CASES)} (default: all)")
    parser.add_argument("--requests", type=int, default=REQUESTS, help=f"of a trial (default: {REQUESTS})")
    parser.add_argument("--studies", type=Path, default=Path("runs/search"), help="folder (default: runs/search)")
    parser.add_argument("--load", type=float, default=1.0, help="times a case's rate (default: 1)")
    parser.add_argument("--seeds", type=int, default=1, help="seeds that HAS is tried on (default: 1)")
    arguments = parser.parse_args()
    if unknown := set(arguments.case) - set(CASES):
        parser.error(f"there is no case {min(unknown)!r}; there are {', '.join(CASES)}")
    for name in arguments.case or CASES:
        compare(name, arguments.requests, arguments.load, arguments.seeds, arguments.studies)


def compare(name: str, requests: int, load: float, seeds: int, studies: Path) -> None:
    prepared = _prepared(name, requests, load)
    question = prepared.question
    space = replace(prepared.space, **COARSE)  # type: ignore[arg-type]
    verdicts = prune(prepared.model, space, prepared.requests)
    alive = {one.allocation for one in kept(verdicts)}
    study = Study(prepared.trial(), studies / f"{name}-{prepared.demand.rate:g}.jsonl", prepared.as_json())
    print(
        f"{name}: {question.model} on {question.machine} at {prepared.demand.rate:g} req/s; "
        f"{len(alive)} of {len(verdicts)} allocations kept",
        flush=True,
    )
    best = None
    for method in METHODS:
        tried, _ = refine(method, space, verdicts, study, "goodput")
        chosen = max(tried, key=lambda one: rank(one.outcome, "goodput"))
        best = best or chosen
        print(f"  {method:10s} {_row(chosen, best, len(tried))}", flush=True)
    assert best is not None
    print(f"  the best was {'kept' if best.candidate.allocation in alive else 'DROPPED'} in stage one")
    shares = [_shares_of_best(space, verdicts, study, prepared.demand.rate, seed) for seed in range(1, seeds)]
    for line in _summary(shares):
        print(f"  {line}", flush=True)


def _shares_of_best(
    space: Space, verdicts: Sequence[Verdict], study: Study, rate: float, seed: int
) -> Mapping[str, float]:
    """By what found it; HAS alone where it came to the whole rate."""
    found = {"HAS": _reached("has", space, verdicts, study, seed)}
    if found["HAS"] >= CLOSE * rate:
        return {"HAS": found["HAS"] / rate}
    by_allocation: dict[Allocation, float] = {}
    for one in space:
        by_allocation[one.allocation] = max(study(one, seed).goodput, by_allocation.get(one.allocation, 0.0))
    found["stage one"] = max(by_allocation[one.allocation] for one in kept(verdicts))
    for method in RIVALS:
        found[method] = _reached(method, space, verdicts, study, seed)
    return {name: goodput / max(by_allocation.values()) for name, goodput in found.items()}


def _reached(method: Method, space: Space, verdicts: Sequence[Verdict], study: Study, seed: int) -> float:
    tried, _ = refine(method, space, verdicts, study, "goodput", seed=seed)
    return max(one.outcome.goodput for one in tried)


def _summary(shares: Sequence[Mapping[str, float]]) -> Iterator[str]:
    for name in dict.fromkeys(name for one in shares for name in one):
        found = [one[name] for one in shares if name in one]
        verb = "kept" if name == "stage one" else "came to"
        yield (
            f"{name} {verb} {min(found):.1%} of the best or more, {fmean(found):.1%} on average, on {len(found)} other "
            f"seeds; {sum(one >= CLOSE for one in found)} times {CLOSE:.0%}"
        )


def _prepared(name: str, requests: int, load: float) -> Prepared:
    model, hardware, workload, settings, rate = CASES[name]
    return Question(
        model=model,
        machine=Machine(hardware, 8),
        workload_name=name,
        workload=read_workload(workload, settings),
        objectives=Objectives(8.0, 0.1),
        rate=load * rate,
        arrivals=Arrivals(),
        requests=requests,
        base=Deployment(),
        spans=SPANS,
    ).prepare()


def _row(chosen: Tried, best: Tried, trials: int) -> str:
    share = chosen.outcome.goodput / best.outcome.goodput
    return f"{trials:4d} trials  goodput {chosen.outcome.goodput:.3f} ({share:.1%})  {chosen.candidate}"


if __name__ == "__main__":
    main()
