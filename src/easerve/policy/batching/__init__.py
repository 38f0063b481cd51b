"""When encode starts, and with how many items. See docs/batching.md."""

from easerve.policy.batching.batcher import Batcher
from easerve.policy.batching.rules import (
    RULES,
    Age,
    AgeCapped,
    BatchOptions,
    BatchRule,
    ControlLimit,
    Count,
    Gap,
    Greedy,
    QueueState,
    Smdp,
    make_rule,
)
from easerve.policy.batching.smdp import control_limit

__all__ = [
    "RULES",
    "Age",
    "AgeCapped",
    "BatchOptions",
    "BatchRule",
    "Batcher",
    "ControlLimit",
    "Count",
    "Gap",
    "Greedy",
    "QueueState",
    "Smdp",
    "control_limit",
    "make_rule",
]
