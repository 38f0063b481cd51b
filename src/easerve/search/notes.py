"""What a planner has to tell about the file it writes, so that nobody is surprised when it is served."""

from __future__ import annotations

from collections.abc import Iterator

from easerve.config import Deployment, problems
from easerve.costs.shapes.find import model_folder
from easerve.search.explore import Tried
from easerve.search.question import Prepared
from easerve.search.space import Candidate

ENOUGH = 0.9  # of the requests within the objectives, as for the knee of a benchmark


def notes(prepared: Prepared, best: Tried, made: Deployment) -> Iterator[str]:
    """Sentences; none where the file can be served as it is on such a machine. `best` is as it was on fresh seeds."""
    chosen, rate = best.candidate, prepared.demand.rate
    load = max(prepared.model.loads(chosen).values())
    if load > 1:
        yield (
            f"by its loads this deployment does not sustain {rate:g} req/s (its bottleneck is at "
            f"{load:.0%}); what is in time then depends on how long it lasts: plan for a lower rate, or "
            "for more devices"
        )
    elif best.outcome.goodput < ENOUGH * rate:
        yield (
            f"of {rate:g} req/s only {best.outcome.goodput:.2g} were within the objectives in its trials, although its "
            f"loads are at {load:.0%} at most: plan for a lower rate (--rate), or for looser objectives"
        )
    width = max(chosen.allocation.tp, chosen.allocation.encode_tp)
    if width > 1:
        yield (
            f"this plan has workers that span {width} devices, and every engine here runs a worker on one: the file "
            "puts each on the first of its devices and cannot be served as it is; plan with --tensor-parallel 1, or "
            "with devices or a precision that let the model fit on one"
        )
    if model_folder(made.model) is None and "/" not in made.model:
        yield (
            f"{made.model} names a shape, not weights: before serving, set `model` in the file to a folder or hub id"
        )
    if prepared.question.precision != "bf16":
        yield f"times are those of {prepared.question.precision} weights: the file's model must be such a checkpoint"
    yield from problems(made)


def heading(prepared: Prepared, chosen: Candidate) -> str:
    """For the head of the file."""
    asked, demand = prepared.question, prepared.demand
    wanted = [f"{name} <= {value:g} s" for name, value in (("TTFT", demand.ttft), ("TPOT", demand.tpot)) if value]
    return (
        f"planned for {asked.model} on {asked.machine}: {asked.workload_name} at {demand.rate:g} req/s"
        f"{', ' + ', '.join(wanted) if wanted else ''}\n{chosen}"
    )
