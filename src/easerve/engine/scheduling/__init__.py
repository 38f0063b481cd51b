"""Continuous batching without an engine: which tokens of which sequences a step computes, in whose blocks."""

from easerve.engine.scheduling.limits import check_length
from easerve.engine.scheduling.plan import Chunk, Displaced, Plan, Schedulable
from easerve.engine.scheduling.pool import BlockPool
from easerve.engine.scheduling.scheduler import Scheduler

__all__ = ["BlockPool", "Chunk", "Displaced", "Plan", "Schedulable", "Scheduler", "check_length"]
