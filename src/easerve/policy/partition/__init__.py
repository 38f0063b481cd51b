"""How encode and local prefill share a device. See docs/partition.md."""

from easerve.policy.partition.profile import EncodeProfile
from easerve.policy.partition.rules import Dynamic, Partitioning, Static, Unpartitioned
from easerve.policy.partition.table import SafeRange, ShareTable

__all__ = [
    "Dynamic",
    "EncodeProfile",
    "Partitioning",
    "SafeRange",
    "ShareTable",
    "Static",
    "Unpartitioned",
]
