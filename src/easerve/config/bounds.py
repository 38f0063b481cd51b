"""How much is done at once where a deployment does not say: less on a CPU, for what others wait is one such piece.

A device that takes longer for a picture or a token keeps whoever comes next waiting longer, and gains less from large
batches. Measured: `benchmarks/interference.py`, docs/results/encode-control-cpu.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from easerve.config.deployment import STEP_TOKENS, Deployment
from easerve.config.topology import WorkerPlan, engine_of
from easerve.engine.torch.options import EngineOptions
from easerve.engine.vllm.arguments import parse_arguments

CPU_STEP_TOKENS = 256
CPU_ENCODE_TOKENS = 128

OnCPU = Callable[[Deployment, WorkerPlan], bool]


def computes_on_cpu(deployment: Deployment, plan: WorkerPlan) -> bool:
    """Whether the worker takes the time of a CPU: a timed one that of the hardware it stands for."""
    if deployment.engine == "timed":
        return parse_arguments(deployment.engine_args).get("hardware") == "cpu"
    return plan.device.kind == "cpu"


def encode_tokens(deployment: Deployment, plans: Sequence[WorkerPlan], on_cpu: OnCPU = computes_on_cpu) -> int | None:
    """Of a batch. Whoever says how many items may be in one has said enough."""
    encoders = [plan for plan in plans if "encode" in plan.stages]
    if deployment.encode_tokens is not None or "encode_batch" in deployment.model_fields_set:
        return deployment.encode_tokens
    return CPU_ENCODE_TOKENS if all(on_cpu(deployment, plan) for plan in encoders) else None


def engine_options(deployment: Deployment, plan: WorkerPlan, on_cpu: OnCPU = computes_on_cpu) -> EngineOptions:
    """Of a worker. vLLM has its own way with a CPU, and keeps its default."""
    small = on_cpu(deployment, plan) and engine_of(deployment, plan) != "vllm"
    tokens = deployment.max_batched_tokens or (CPU_STEP_TOKENS if small else STEP_TOKENS)
    return EngineOptions(
        kv_cache_bytes=None if deployment.kv_cache_gb is None else int(deployment.kv_cache_gb * 2**30),
        max_batched_tokens=tokens,
        max_sequences=deployment.max_sequences,
        prefix_cache=deployment.prefix_cache,
        max_model_len=deployment.max_model_len,
    )
