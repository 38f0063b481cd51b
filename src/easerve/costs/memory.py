"""How many tokens' keys and values fit a worker's devices beside the weights."""

from __future__ import annotations

from easerve.costs.hardware import PRECISIONS, Hardware
from easerve.costs.shapes.model import ModelShape

USABLE = 0.9  # of a device's memory; vLLM's default
WORKSPACE = 3.0e9  # bytes of each device for activations, graphs and communication
_STATES = 64  # sequences whose linear-attention state is held


def kv_tokens(shape: ModelShape, hardware: Hardware, tp: int, precision: str) -> int:
    """0 where the language model does not fit: such a worker can only encode."""
    free = tp * (hardware.memory * USABLE - WORKSPACE)
    free -= shape.weight_bytes(PRECISIONS[precision]) + _STATES * shape.language.state_bytes
    replicas = max(1, tp // shape.language.kv_heads)  # a head is never split, so more devices than heads hold copies
    return max(0, int(free / (shape.language.kv_bytes_per_token * replicas)))
