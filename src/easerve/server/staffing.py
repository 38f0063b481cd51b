"""From a deployment to what its worker processes are told, and to who watches them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from easerve.config import Deployment, WorkerPlan, engine_of, engine_options
from easerve.policy.restart import RestartRule
from easerve.server.lines import Lines
from easerve.workers.spec import Device, ProgressReport, WorkerSpec, usable_cores
from easerve.workers.supervisor import Patience, Pools, Supervisor


def make_supervisor(deployment: Deployment, lines: Lines, pools: Pools, on_progress: ProgressReport) -> Supervisor:
    """A supervisor without workers yet."""
    return Supervisor(
        hub=lines.hub,
        ledger=lines.ledger,
        pools=pools,
        on_progress=on_progress,
        restart=RestartRule(most_in_a_row=deployment.max_restarts),
        patience=Patience(startup=deployment.startup_timeout, silence=deployment.heartbeat_timeout),
    )


def worker_specs(deployment: Deployment, plans: Sequence[WorkerPlan], model: Path, lines: Lines) -> list[WorkerSpec]:
    """For each of `plans`; `model` is the checkpoint's folder."""
    return [
        WorkerSpec(
            name=plan.name,
            stages=plan.stages,
            device=_device(deployment, plan),
            model=str(model),
            endpoint=lines.hub.endpoint,
            run_folder=str(lines.folder),
            dtype=deployment.dtype,
            engine=engine_options(deployment, plan),
            engine_name=engine_of(deployment, plan) or "torch",
            engine_args=deployment.engine_args,
            kv_travels=any("prefill" in other.stages and "decode" not in other.stages for other in plans),
            media=deployment.media if "encode" in plan.stages and not deployment.frontend_decoding else None,
            transfer=deployment.transfer,
            partition=deployment.partition_options,
        )
        for plan in plans
    ]


def _device(deployment: Deployment, plan: WorkerPlan) -> Device:
    """A timed worker waits on a core of this machine, whatever device it stands for."""
    if deployment.engine != "timed" or plan.device.kind == "cpu":
        return plan.device
    return Device("cpu", (plan.device.indices[0] % len(usable_cores()),))
