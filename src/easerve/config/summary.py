"""A deployment in words: what it comes to, and what is wrong with it as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from easerve.config.bounds import encode_tokens, engine_options
from easerve.config.deployment import SHAPE, Deployment
from easerve.config.model import from_hub, served_name
from easerve.config.topology import WorkerPlan, engine_of, plan_workers
from easerve.engine.choice import HOW_TO_INSTALL_VLLM, TIMED_NEEDS_HARDWARE, vllm_is_installed
from easerve.engine.vllm.arguments import parse_arguments

UNUSED: Mapping[str, frozenset[str]] = {
    "aggregated": frozenset({"encoders", "prefillers"}),
    "colocated": frozenset({"prefillers"}),
    "e-pd": frozenset({"prefillers"}),
    "e-p-d": frozenset(),
    "easerve": frozenset(),
}  # topology -> the numbers that say nothing about it


def describe(deployment: Deployment) -> dict[str, str]:
    """The effective configuration, for the start of a server."""
    plans = plan_workers(deployment)
    engines = sorted(
        {
            f"{engine}, at most {engine_options(deployment, plan).max_batched_tokens} tokens a step"
            for plan in plans
            if (engine := engine_of(deployment, plan))
        }
    )
    origin = "from the hub, " if from_hub(deployment) else ""
    described = {
        "model": f"{deployment.model} ({origin}served as {served_name(deployment)})",
        "topology": "as listed" if deployment.workers else deployment.topology,
        "workers": "\n".join(f"{plan.name}: {' + '.join(plan.stages)} on {plan.device}" for plan in plans),
        "engine": "; ".join(engines),
        "encode": _encode(deployment, encode_tokens(deployment, plans)),
        "cache": f"{deployment.embedding_cache_gb:g} GiB of embeddings",
        "placement": deployment.placement,
        "transfer": deployment.transfer,
        "limits": (
            f"{deployment.limit_images} images a request, {deployment.max_requests} requests in flight, "
            f"{deployment.request_timeout:g} s for any one stage"
        ),
    }
    if objectives := _objectives(deployment):
        described["objectives"] = objectives
    if _local(plans):
        described["prefill"] = f"offload {deployment.offload}, {deployment.remote_ratio:.0%} of media requests remote"
        described["partition"] = f"{deployment.partition_options.name} between encode and the prefill beside it"
    return described


def problems(deployment: Deployment) -> list[str]:
    """What would keep it from serving, in words; empty when nothing does."""
    plans = plan_workers(deployment)
    stages = Counter(stage for plan in plans for stage in plan.stages)
    names = Counter(plan.name for plan in plans)
    found = [f"two workers are called {name}" for name, count in names.items() if count > 1]
    if deployment.workers and (said := [name for name in SHAPE if name in deployment.model_fields_set]):
        found.append(f"workers are listed, so {', '.join(said)} would have no effect; leave one or the other out")
    if not deployment.workers and (said := sorted(UNUSED[deployment.topology] & deployment.model_fields_set)):
        found.append(f"topology {deployment.topology} has no {' or '.join(said)} of their own; leave the number out")
    if not stages["encode"]:
        found.append("no worker encodes; add one with `stages: [encode]`")
    if not stages["prefill"]:
        found.append("no worker prefills; add one with `stages: [prefill, decode]`")
    if not stages["decode"]:
        found.append("no worker decodes; add one with `stages: [decode]`, or add decode to a prefill worker")
    if deployment.partition in ("static", "dynamic") and not _local(plans):
        found.append(
            f"partition {deployment.partition}: no worker encodes and prefills (and does not decode), so there is "
            "nothing to share; use topology easerve, or partition none"
        )
    if deployment.max_encode_queue < deployment.limit_images:
        found.append(
            f"max_encode_queue {deployment.max_encode_queue} is less than limit_images {deployment.limit_images}: a "
            "request with so many images would be shed however often it is sent; raise the one or lower the other"
        )
    return found + _engine_problems(deployment, plans)


def _engine_problems(deployment: Deployment, plans: list[WorkerPlan]) -> list[str]:
    if deployment.engine == "vllm" and not vllm_is_installed():
        return [f"engine vllm: vLLM is not installed here; {HOW_TO_INSTALL_VLLM}, or use --engine torch"]
    if deployment.engine == "timed" and "hardware" not in parse_arguments(deployment.engine_args):
        return [TIMED_NEEDS_HARDWARE]
    if deployment.engine_args and not {"vllm", "timed"} & {engine_of(deployment, plan) for plan in plans}:
        return ["engine_args are for vLLM, and no worker runs it; add --engine vllm or leave them out"]
    return []


def _local(plans: list[WorkerPlan]) -> bool:
    return any(plan.stages == ("encode", "prefill") for plan in plans)


def _encode(deployment: Deployment, tokens: int | None) -> str:
    budget = "" if tokens is None else f" and {tokens} tokens"
    hold = "" if deployment.batching == "greedy" else f" that holds for {deployment.age_cap:g} s at most"
    where = "front end" if deployment.frontend_decoding else "encode workers"
    return (
        f"batching {deployment.batching}{hold}, at most {deployment.encode_batch} items{budget} a batch; "
        f"media decoded by the {where}"
    )


def _objectives(deployment: Deployment) -> str:
    wanted = {"TTFT": deployment.slo_ttft, "TPOT": deployment.slo_tpot}
    return ", ".join(f"{name} {seconds:g} s" for name, seconds in wanted.items() if seconds is not None)
