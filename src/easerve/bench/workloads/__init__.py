"""What is asked of a server: workloads by name, by YAML, or the user's own requests."""

from easerve.bench.workloads.base import Workload
from easerve.bench.workloads.names import NAMED
from easerve.bench.workloads.read import read_workload

__all__ = ["NAMED", "Workload", "read_workload"]
