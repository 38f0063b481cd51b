"""What a search by HAS comes to, in numbers that a paper reports of one."""

from __future__ import annotations

from easerve.bench.arrivals import Arrivals
from easerve.bench.objectives import Objectives
from easerve.bench.workloads.read import KINDS
from easerve.config import Deployment
from easerve.scenarios.describe import Search
from easerve.search.deploying import Machine
from easerve.search.explore import Tried
from easerve.search.prune import prune
from easerve.search.question import Question
from easerve.search.tuning import tune

TRIAL_REQUESTS = 500  # of the paper's runs
CLOSE = 0.99  # of the best throughput


def searched(search: Search, seed: int) -> dict[str, float]:
    """Allocations there are, allocations kept, trials, hours that trials of 500 requests would have taken on the
    devices until one was within 1 % of the best, and the remote ratio of the best. By throughput, as the paper has it.
    """
    fields = dict(search.workload)
    kind = fields.pop("kind")
    prepared = Question(
        model=search.model,
        machine=Machine.parse(search.hardware),
        workload_name=kind,
        workload=KINDS[kind](**fields),
        objectives=Objectives(),
        rate=search.rate,
        arrivals=Arrivals(),
        requests=search.requests,
        base=Deployment(),
        spans=search.spans,
    ).prepare()
    verdicts = prune(prepared.model, prepared.space, prepared.requests)
    findings = tune("has", prepared.space, verdicts, prepared.trial(), "throughput", seed=seed)
    return {
        "allocations": len(verdicts),
        "kept": sum(not verdict.dropped for verdict in verdicts),
        "trials": len(findings.tried),
        "hours": _hours([*findings.tried]),
        "remote_ratio": findings.best.candidate.ratio,
    }


def _hours(tried: list[Tried]) -> float:
    best = max(one.outcome.throughput for one in tried)
    until = next(place for place, one in enumerate(tried, 1) if one.outcome.throughput >= CLOSE * best)
    return sum(TRIAL_REQUESTS / one.outcome.throughput for one in tried[:until]) / 3600
