"""Encode by batch and share, prefill by tokens and share, alone and together; what batching gains by picture size."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from easerve.engine.partition.base import Partition
from easerve.engine.partition.measure import Bench, ShareTimes
from easerve.engine.partition.profiling import Prefills
from easerve.policy.partition import Dynamic, EncodeProfile
from gpu_checks.models import Encoder, Language
from gpu_checks.setting import Setting

PART = 0.15  # of the time left, by the estimate of `affordable`, for all pictures of one size


def encode(setting: Setting, partition: Partition, encoder: Encoder, model: Language, side: int) -> dict[str, Any]:
    """Pictures of `side` x `side` pixels. Seconds everywhere."""
    times = _shares(setting, partition, encoder, model, side)
    alpha, beta = _line(times.batches, [row[-1] for row in times.alone])
    return asdict(times) | {"alpha": alpha, "beta": beta, "shares": _chosen(times.profile())}


def _shares(setting: Setting, partition: Partition, encoder: Encoder, model: Language, side: int) -> ShareTimes:
    prefills = Prefills(model.engine, setting.sizes.chunk_tokens[-1])
    bench = Bench(partition, lambda items: _encode(encoder, items, side), prefills, setting.sizes.repeats)
    batches = bench.affordable(setting.sizes.largest_batch, setting.left * PART)
    if batches[-1] < setting.sizes.largest_batch:
        setting.notes.append(f"pictures of {side}: batches over {batches[-1]} left out, for lack of time")
    times = bench.share_times(batches)
    model.drain()
    return times


def _encode(encoder: Encoder, items: int, side: int) -> None:
    encoder.encode(items, side)


def _chosen(profile: EncodeProfile) -> dict[int, int | None]:
    rule = Dynamic(profile)
    return {items: rule.during(items) for items in profile.batches}


def prefill(setting: Setting, partition: Partition, model: Language) -> list[dict[str, Any]]:
    """On the complement of every share: seconds of one chunk, nothing beside it."""
    rows = []
    for tokens in setting.sizes.chunk_tokens:
        prefills = Prefills(model.engine, tokens)
        for held in (*partition.choices, None):
            times = []
            for _ in range(1 + setting.sizes.repeats):
                started = time.perf_counter()
                partition.prefill(held, prefills)
                times.append(time.perf_counter() - started)
            rows.append({"tokens": tokens, "units": partition.whole - (held or 0), "seconds": median(times[1:])})
        model.drain()
    return rows


def _line(items: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Least squares for seconds = alpha + beta * items."""
    if len(items) < 2:
        return 0.0, seconds[0] / items[0]
    mean, centre = sum(items) / len(items), sum(seconds) / len(seconds)
    beta = sum((x - mean) * (y - centre) for x, y in zip(items, seconds, strict=True)) / sum(
        (x - mean) ** 2 for x in items
    )
    return centre - beta * mean, beta
