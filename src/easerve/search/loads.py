"""How much of each pool a demand takes: 1 is as much as it can do.

Capacities from stage times, the bottleneck as the largest load, and the balanced point are what the paper's first stage
uses (EAServe, arXiv 2609.31551); the formulas are derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from easerve.costs.base import StageCosts
from easerve.engine.torch.options import EngineOptions
from easerve.search.allocation import Allocation
from easerve.search.demand import Demand
from easerve.search.space import Candidate, Space
from easerve.search.times import Times

ROUNDS = 12  # of co-resident stages slowing each other until their busy shares agree
HALVINGS = 40
NEXT_TO_NONE = 1.02  # a difference in load


@dataclass(frozen=True, eq=False)
class Balanced:
    """The best that an allocation can do by its loads: where, the loads there, and which pool is the bottleneck."""

    candidate: Candidate
    loads: Mapping[str, float]

    @property
    def load(self) -> float:
        """R, the bottleneck's."""
        return max(self.loads.values())

    @property
    def bottleneck(self) -> str:
        return max(self.loads, key=lambda pool: self.loads[pool])


class LoadModel:
    """Loads of any candidate under one demand. `costs` are those of workers by how many devices they span, `bounds`
    those of their engine steps."""

    def __init__(self, costs: Mapping[int, StageCosts], demand: Demand, bounds: EngineOptions | None = None) -> None:
        self.demand = demand
        self._costs, self._bounds = costs, bounds or EngineOptions()
        self._times = {span: Times(one, demand.shape, self._bounds) for span, one in costs.items()}
        self._tpot = math.inf if demand.tpot is None else demand.tpot

    def under(self, demand: Demand) -> LoadModel:
        """The same workers under another demand."""
        return LoadModel(self._costs, demand, self._bounds)

    def fits(self, tp: int) -> bool:
        """A mean request has room beside the language model on `tp` devices."""
        shape = self.demand.shape
        return tp in self._times and self.times(tp).costs.kv_tokens >= shape.prompt_tokens + shape.output_tokens

    def times(self, tp: int) -> Times:
        return self._times[tp]

    def local(self, allocation: Allocation) -> bool:
        """Its encode workers can prefill too."""
        return allocation.kind == "e-p-d" and self.demand.shape.items > 0 and self.fits(allocation.encode_tp)

    def balanced(self, allocation: Allocation, space: Space) -> Balanced:
        """Where the bottleneck's load is least: the seed of the search. Of batch bounds that make next to no difference
        to it, the smallest, since waiting for a batch and in it costs time to first token."""
        found = [
            Balanced(choice, self.loads(choice))
            for choice in space.within([allocation])
            if choice.rule == space.rules[0]
        ]
        enough = NEXT_TO_NONE * min(one.load for one in found)
        return min(
            (one for one in found if one.load <= enough),
            key=lambda one: (one.candidate.batch, sorted(one.loads.values(), reverse=True)),
        )

    def loads(self, candidate: Candidate) -> dict[str, float]:
        """By pool: encode, local, prefill, decode, or both for a pool that does both."""
        match candidate.allocation.kind:
            case "aggregated":
                return {"all": self.demand.rate / self._most(lambda rate: self._aggregated(candidate, rate))}
            case "colocated":
                return {"all": self.demand.rate / self._most(lambda rate: self._colocated(candidate, rate))}
            case "e-pd":
                both = self._most(lambda rate: self._prefill_decode(candidate.allocation, rate))
                return {"encode": self._encode(candidate, 1.0), "prefill/decode": self.demand.rate / both}
            case "e-p-d":
                return self._apart(candidate)

    def _apart(self, candidate: Candidate) -> dict[str, float]:
        allocation, rate = candidate.allocation, self.demand.rate
        large = self.times(allocation.tp)
        local = rate * (1 - candidate.ratio) * self.demand.shape.media_share
        share = self.times(allocation.encode_tp).safe_share(candidate.batch) if local else 1.0
        loads = {
            "encode": self._encode(candidate, share),
            "prefill": (rate - local) * large.prefill() / allocation.prefillers,
            "decode": rate * large.decode(self._tpot) / allocation.decoders,
        }
        if local:
            loads["local prefill"] = local / self._local_rate(candidate)
        return loads

    def _local_rate(self, candidate: Candidate) -> float:
        """Requests a second that encode workers can prefill beside encode."""
        times = self.times(candidate.allocation.encode_tp)
        batch = self.usual_batch(candidate)
        share = times.safe_share(batch)
        busy = min(1.0, self._encode(replace(candidate, batch=batch), share))
        speed = times.prefill() / times.prefill(1 - share, share) if share < 1 else 0.0
        return max(1e-9, candidate.allocation.encoders * (1 - busy + busy * speed) / times.prefill())

    def usual_batch(self, candidate: Candidate) -> int:
        """Items that encode takes at a time, which are few while it has time to spare: what one request brings, or the
        fewest at a time that keep pace with what comes. At most the bound."""
        least = min(candidate.batch, max(1, round(self.demand.shape.items)))
        if candidate.allocation.kind == "aggregated":
            return least
        times = self.times(candidate.allocation.encode_tp)
        for batch in range(least, candidate.batch):
            if self._encode(replace(candidate, batch=batch), times.safe_share(batch)) <= 1:
                return batch
        return candidate.batch

    def _encode(self, candidate: Candidate, share: float) -> float:
        allocation = candidate.allocation
        times = self.times(allocation.encode_tp)
        return self.demand.rate * times.encode(candidate.batch, share) / allocation.encoders

    def _prefill_decode(self, allocation: Allocation, rate: float) -> float:
        """Busy share of workers that prefill and decode: prefill stretches the time between tokens."""
        each, times = rate / allocation.decoders, self.times(allocation.tp)
        return _busy(each, times.prefill(), times.decode, self._tpot)

    def _aggregated(self, candidate: Candidate, rate: float) -> float:
        """One loop: encode stretches it too."""
        each, times = rate / candidate.allocation.decoders, self.times(candidate.allocation.tp)
        return _busy(each, times.encode(candidate.batch) + times.prefill(), times.decode, self._tpot)

    def _colocated(self, candidate: Candidate, rate: float) -> float:
        """Two processes: each is slowed by as much as the other is busy."""
        allocation, times = candidate.allocation, self.times(candidate.allocation.tp)
        encode = both = 0.0
        for _ in range(ROUNDS):
            beside = min(1.0, both)
            encode = rate * times.encode(candidate.batch, 1.0, beside) / allocation.encoders
            busy = round(min(1.0, encode), 3)
            each = rate / allocation.decoders
            both = _busy(each, times.prefill(1.0, busy), partial(times.decode, beside=busy), self._tpot)
        return max(encode, both)

    def _most(self, busy: Callable[[float], float]) -> float:
        """The highest rate at which a pool is busy all the time and no more."""
        low, high = 0.0, 1e-3
        while busy(high) < 1:
            low, high = high, 2 * high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if busy(middle) < 1 else (low, middle)
        return high


def _busy(rate: float, before: float, decode: Callable[[float], float], tpot: float) -> float:
    """Of a worker that does `before` seconds of other work for each request it decodes: its steps have to be as much
    shorter than `tpot` as that work takes of the time."""
    stretched = tpot * max(0.0, 1 - rate * before) if tpot < math.inf else tpot
    return rate * (before + decode(stretched))
