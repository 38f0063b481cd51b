"""Engine steps against the time that this device needs at least: its arithmetic and its memory, both measured here."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from easerve.engine.base import NewSequence
from easerve.request import SamplingParams
from gpu_checks.models import TEXT_TOKEN, Language
from gpu_checks.setting import Setting

_names = (f"roofline-{number}" for number in itertools.count())


@dataclass(frozen=True)
class Peaks:
    """What this device reached just now."""

    flops: float
    bytes_per_second: float


def peaks(setting: Setting) -> Peaks:
    """A large matrix product, and a copy (bytes read and written)."""
    edge, length = (256, 2**20) if setting.tiny else (8192, 2**30)
    square = torch.randn(edge, edge, device=setting.device, dtype=setting.dtype)
    source = torch.empty(length, dtype=torch.uint8, device=setting.device)
    target = torch.empty_like(source)
    product = _seconds(setting, lambda: square @ square)
    copy = _seconds(setting, lambda: target.copy_(source))
    return Peaks(2 * edge**3 / product, 2 * length / copy)


def measure(setting: Setting, model: Language, found: Peaks) -> dict[str, Any]:
    """Seconds of a step, the least possible, and their ratio: one prefill chunk, and decode by batch."""
    tokens = setting.sizes.chunk_tokens[-1]
    rows = [_row("prefill", 1, _prefill(setting, model, tokens), _least(model, found, 1, tokens, 0, setting))]
    for batch in setting.sizes.decode_batches:
        context = setting.sizes.context_tokens
        seconds = _decode(setting, model, batch, context)
        rows.append(_row("decode", batch, seconds, _least(model, found, batch, 1, context, setting)))
    return {"weights": model.weights, "steps": rows}


def _row(step: str, batch: int, seconds: float, least: float) -> dict[str, Any]:
    return {"step": step, "batch": batch, "seconds": seconds, "least": least, "efficiency": least / seconds}


def _least(model: Language, found: Peaks, batch: int, new: int, context: int, setting: Setting) -> float:
    """Weights and KV are read once; every new token meets every weight, and attends to what is before it."""
    attended = batch * (new * context + new * new / 2)
    flops = 2 * model.weights * batch * new + 4 * model.layers * model.heads * model.head_dim * attended
    nbytes = model.weights * setting.dtype.itemsize + batch * (context + new) * model.kv_bytes
    return max(flops / found.flops, nbytes / found.bytes_per_second)


def _prefill(setting: Setting, model: Language, tokens: int) -> float:
    def step() -> None:
        model.engine.add(_sequence(tokens, 1))
        model.step()

    return _seconds(setting, step)


def _decode(setting: Setting, model: Language, batch: int, context: int) -> float:
    longest = batch + setting.sizes.repeats + 2  # the first decode while others are still prefilled
    for _ in range(batch):
        model.engine.add(_sequence(context, longest))
    while model.engine.stats().pending_tokens:
        model.step()
    seconds = _seconds(setting, model.step)
    model.drain()
    return seconds


def _sequence(tokens: int, outputs: int) -> NewSequence:
    sampling = SamplingParams(max_tokens=outputs, temperature=0.0, ignore_eos=True)
    return NewSequence(next(_names), [TEXT_TOKEN] * tokens, sampling)


def _seconds(setting: Setting, run: Callable[[], object]) -> float:
    """The median of a few, after one that warms up."""
    times = []
    for _ in range(1 + setting.sizes.repeats):
        setting.synchronize()
        started = time.perf_counter()
        run()
        setting.synchronize()
        times.append(time.perf_counter() - started)
    return median(times[1:])
