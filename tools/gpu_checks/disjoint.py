"""Whether encode and prefill really run on different parts of the device, and how large these are."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from easerve.engine.partition.base import Partition
from gpu_checks.setting import Setting

PROGRAMS, LAUNCHES = 4096, 8  # more programs than fit at once, so that every SM gets some


def measure(setting: Setting, partition: Partition) -> dict[str, Any]:
    """Where work of each stage was seen, share by share."""
    seen = _sm_numbers(setting) if setting.device.type == "cuda" else _core_numbers
    shares = []
    for held in partition.choices:
        encode, prefill = partition.encode(held, seen), partition.prefill(held, seen)
        shares.append(
            {
                "granted": held,
                "encode_seen": len(encode),
                "prefill_seen": len(prefill),
                "disjoint": not encode & prefill,
                "complete": len(encode | prefill) == partition.whole,
            }
        )
    sound = [one["disjoint"] and one["complete"] and one["encode_seen"] == one["granted"] for one in shares]
    passed = all(sound) and (bool(shares) or partition.whole == 1)  # nothing shown is nothing passed
    return {"unit": partition.unit, "whole": partition.whole, "shares": shares, "passed": passed}


def _core_numbers() -> set[int]:
    return set(os.sched_getaffinity(0))


def _sm_numbers(setting: Setting) -> Callable[[], set[int]]:
    from gpu_checks.smid import sm_numbers

    def seen() -> set[int]:
        out = torch.full((LAUNCHES, PROGRAMS), -1, dtype=torch.int32, device=setting.device)
        for row in out:
            sm_numbers[(PROGRAMS,)](row)
        return set(out.flatten().tolist())

    return seen
