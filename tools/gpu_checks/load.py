"""`none`, `static` and `dynamic` under the same Poisson arrivals: encode and local prefill/decode in two threads.

The device does all three stages here. EAServe decodes elsewhere; on one device this is the only way to see what a
partition does to the time per token, and it is told with the figures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from random import Random
from statistics import median, quantiles
from typing import Any

from easerve.engine.base import NewSequence
from easerve.engine.partition.base import Partition
from easerve.engine.partition.engines import SharingLanguageModel
from easerve.engine.partition.sharing import Sharing
from easerve.models.base import Embedding
from easerve.policy.partition import Dynamic, EncodeProfile, Partitioning, Static, Unpartitioned
from easerve.request import SamplingParams, TokenOutput
from gpu_checks.models import PICTURE_TOKEN, TEXT_TOKEN, Encoder, Language
from gpu_checks.setting import Setting

LOAD = 0.8  # of the throughput of a burst, unpartitioned
PART = 0.7  # of the time left, for all settings and rounds


@dataclass
class Request:
    """Moments in seconds since the start of the run."""

    name: str
    due: float
    tokens: list[float] = field(default_factory=list)

    @property
    def ttft(self) -> float:
        return self.tokens[0] - self.due

    @property
    def tpot(self) -> float:
        return (self.tokens[-1] - self.tokens[0]) / (len(self.tokens) - 1)


Encoded = SimpleQueue[tuple[Request, Embedding] | None]  # None: encode failed, and nothing more comes


@dataclass(frozen=True)
class Stages:
    """Two threads that share a device as a rule says."""

    setting: Setting
    encoder: Encoder
    model: Language
    sharing: Sharing

    def run(self, dues: Sequence[float]) -> list[Request]:
        """One request per moment it is due at; returns when all have ended."""
        requests = [Request(f"load-{index}", due) for index, due in enumerate(dues)]
        arrived: SimpleQueue[Request] = SimpleQueue()
        encoded: Encoded = SimpleQueue()
        started = time.perf_counter()

        def now() -> float:
            return time.perf_counter() - started

        with ThreadPoolExecutor(2) as stages:
            running = [
                stages.submit(self._encode, len(requests), arrived, encoded),
                stages.submit(self._generate, {one.name: one for one in requests}, encoded, now),
            ]
            for request in requests:
                time.sleep(max(0.0, request.due - now()))
                arrived.put(request)
            for stage in running:
                stage.result()
        return requests

    def _encode(self, amount: int, arrived: SimpleQueue[Request], encoded: Encoded) -> None:
        try:
            self._encode_all(amount, arrived, encoded)
        except Exception:
            encoded.put(None)
            raise

    def _encode_all(self, amount: int, arrived: SimpleQueue[Request], encoded: Encoded) -> None:
        side, largest = self.setting.sizes.sides[0], self.setting.sizes.largest_batch
        while amount > 0:
            batch = [arrived.get()]
            while len(batch) < largest and not arrived.empty():
                batch.append(arrived.get())
            made = self.sharing.encode(len(batch), partial(self.encoder.encode, len(batch), side))
            for pair in zip(batch, made, strict=True):
                encoded.put(pair)
            amount -= len(batch)

    def _generate(self, open_: dict[str, Request], encoded: Encoded, now: Callable[[], float]) -> None:
        engine, left = SharingLanguageModel(self.model.engine, self.sharing), len(open_)
        while left > 0:
            for pair in _taken(encoded, wait=not engine.has_work()):
                if pair is None:
                    return
                engine.add(self._sequence(pair[0].name, pair[1]))
            for event in engine.step():
                if not isinstance(event, TokenOutput):
                    raise RuntimeError(f"a sequence did not end well: {event}")
                open_[event.sequence_id].tokens.append(now())
                left -= event.finish_reason is not None

    def _sequence(self, name: str, embedding: Embedding) -> NewSequence:
        sizes = self.setting.sizes
        prompt = [PICTURE_TOKEN] * embedding.values.shape[0] + [TEXT_TOKEN] * sizes.text_tokens
        sampling = SamplingParams(max_tokens=sizes.output_tokens, temperature=0.0, ignore_eos=True)
        return NewSequence(name, prompt, sampling, [(0, embedding)])


def _taken(queue: SimpleQueue[Any], *, wait: bool) -> list[Any]:
    found = [queue.get()] if wait else []
    try:
        while True:
            found.append(queue.get_nowait())
    except Empty:
        return found


def measure(
    setting: Setting, partition: Partition, encoder: Encoder, model: Language, profile: EncodeProfile
) -> dict[str, Any]:
    """All settings in turn, round after round, with the same arrivals in a round."""
    rules: dict[str, Partitioning] = {"none": Unpartitioned()}
    if partition.choices:
        rules["static"] = Static(partition.whole / 2, partition.choices)
    rules["dynamic"] = Dynamic(profile)

    def run(name: str, dues: Sequence[float]) -> dict[str, float]:
        sharing = Sharing(partition, rules[name], time.monotonic)
        done = Stages(setting, encoder, model, sharing).run(dues)
        return _figures(done) | {"switches": sharing.switches, "batches_apart": sharing.batches_apart}

    burst = [0.0] * 4 * setting.sizes.largest_batch
    run("none", burst)  # warms up
    rate = LOAD * run("none", burst)["throughput"]
    amount = _amount(setting, rate, runs=len(rules) * setting.sizes.rounds)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in rules}
    for turn in range(setting.sizes.rounds):
        dues = _poisson(rate, amount, Random(turn))
        for name in rules:
            found[name].append(run(name, dues))
    medians = {name: {key: median(one[key] for one in runs) for key in runs[0]} for name, runs in found.items()}
    return {
        "rate": rate,
        "requests": amount,
        "decodes_here_too": True,
        "rounds": found,
        "median": medians,
        "dynamic_over": {
            name: {key: medians["dynamic"][key] / medians[name][key] for key in ("throughput", "p99_ttft", "p99_tpot")}
            for name in rules
            if name != "dynamic"
        },
    }


def _amount(setting: Setting, rate: float, runs: int) -> int:
    """Requests in a run."""
    amount = int(min(setting.sizes.requests, max(4, rate * setting.left * PART / runs)))
    if amount < setting.sizes.requests:
        setting.notes.append(f"load: {amount} requests a run instead of {setting.sizes.requests}, for lack of time")
    return amount


def _poisson(rate: float, amount: int, rng: Random) -> list[float]:
    dues, at = [], 0.0
    for _ in range(amount):
        at += rng.expovariate(rate)
        dues.append(at)
    return dues


def _figures(done: Sequence[Request]) -> dict[str, float]:
    last = max(one.tokens[-1] for one in done)
    ttfts, tpots = [one.ttft for one in done], [one.tpot for one in done]
    return {
        "throughput": len(done) / last,
        "mean_ttft": sum(ttfts) / len(done),
        "p99_ttft": _p99(ttfts),
        "mean_tpot": sum(tpots) / len(done),
        "p99_tpot": _p99(tpots),
        "last": last,
    }


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98] if len(values) > 1 else values[0]
