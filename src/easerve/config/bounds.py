"""How much is done at once where a deployment does not say: less on a CPU, for what others wait is one such piece.

A device that takes longer for a picture or a token keeps whoever comes next waiting longer, and gains less from large
batches. Measured: `benchmarks/interference.py`, docs/results/encode-control-cpu.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from easerve.config.deployment import STEP_TOKENS, Deployment
from easerve.config.topology import WorkerPlan, engine_of

CPU_STEP_TOKENS = 256
CPU_ENCODE_TOKENS = 128


def bounded(deployment: Deployment, plans: Sequence[WorkerPlan]) -> Deployment:
    """The deployment with its token bounds filled in, those of an encode batch and of an engine step."""
    slow = [plan for plan in plans if plan.device.kind == "cpu" and deployment.engine != "timed"]
    encodes = any("encode" in plan.stages for plan in slow)
    generates = any(engine_of(deployment, plan) == "torch" for plan in slow)
    return deployment.model_copy(
        update={
            "encode_tokens": deployment.encode_tokens or (CPU_ENCODE_TOKENS if encodes else None),
            "max_batched_tokens": deployment.max_batched_tokens or (CPU_STEP_TOKENS if generates else STEP_TOKENS),
        }
    )
