"""Which cores the workers and the front end run on, where all of them run on a CPU."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from easerve.config import WorkerPlan
from easerve.workers.spec import Device, usable_cores


def cores_of(device: Device) -> tuple[int, ...]:
    """By the operating system's numbers; none for a CUDA device, whose worker may run on any."""
    if device.kind != "cpu":
        return ()
    cores = usable_cores()
    return tuple(cores[index] for index in device.indices)


@contextmanager
def front_end_beside_encode(plans: Sequence[WorkerPlan]) -> Iterator[None]:
    """Keep this thread off the cores of workers that generate, if encode workers leave it any, until the block ends.

    A token wakes the front end. On the core of the worker that made it, that would delay the next one.
    """
    encode = {core for plan in plans if plan.stages == ("encode",) for core in cores_of(plan.device)}
    generate = {core for plan in plans if "decode" in plan.stages for core in cores_of(plan.device)}
    own = encode - generate
    if not own or not generate or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - generate or own)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
