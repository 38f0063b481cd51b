"""What is kept of the objectives when more requests come than can be served.

Loads say what can be sustained, and that is nothing then: every queue in front of an overloaded pool grows until all
that join it are late. Yet deployments of one load differ. Requests take two ways past encode, and where only one of
them is overloaded those on the other are in time. And of a run of so many requests those that came before the queues
had grown are in time as well. Derived here, for a fluid of mean requests: no noise, no queue where a load is below 1.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from easerve.search.loads import LoadModel
from easerve.search.space import Candidate, Space
from easerve.search.times import Times


@dataclass(frozen=True)
class _Way:
    """From arrival to first token: `part` of the requests, `idle` seconds where none waits. Requests leave it `stretch`
    times as far apart as they came, which is the load of its bottleneck, or 1."""

    part: float
    idle: float
    stretch: float


@dataclass(frozen=True)
class _Decoder:
    """A worker that makes tokens, and does `before` seconds of other work for each request."""

    times: Times
    before: float
    beside: float

    @property
    def tokens(self) -> int:
        return self.times.shape.output_tokens - 1

    def between(self, sequences: int) -> float:
        """Seconds between tokens with as many at a time and one coming for each that goes."""
        return self.times.step(sequences, self.beside) + self.before * sequences / self.tokens

    def until(self, rate: float, tpot: float, slack: float) -> float:
        """Seconds of such a rate after which requests are late; `slack` is what they may wait for their turn."""
        most = self.times.largest_batch(math.inf)
        if self.between(most) > tpot:
            able, life = bisect_right(range(1, most + 1), tpot, key=self.between), self.tokens * tpot
            return math.inf if rate * life <= able else life * max(0.0, able / (rate * life) - 0.5)
        filled = most / rate  # seconds until all places are taken
        later = self.tokens * self.between(most) - filled  # that the next have to wait, and those after them once more
        if later <= 0 or slack == math.inf:
            return math.inf
        first = max(0.0, self.tokens - filled / self.between(most // 2 or 1)) * self.between(most)
        return filled * (1 if slack < first else 2 + (slack - first) // later)


@dataclass(frozen=True)
class Hope:
    """The `part` of a run that a candidate is expected to keep within the objectives."""

    candidate: Candidate
    part: float


def most_in_time(model: LoadModel, balanced: Candidate, space: Space, requests: int) -> Hope:
    """Of all settings of the balanced candidate's allocation; itself, if none keeps more."""
    choices = [one for one in space.within([balanced.allocation]) if one.rule == balanced.rule]
    hopes = [Hope(one, in_time(model, one, requests)) for one in (balanced, *choices)]
    return max(hopes, key=lambda hope: hope.part)


def in_time(model: LoadModel, candidate: Candidate, requests: int) -> float:
    """The part of a run of `requests` that keeps the objectives; 1 where no load is above 1."""
    rate, ttft, tpot = model.demand.rate, _or_infinite(model.demand.ttft), _or_infinite(model.demand.tpot)
    loads = model.loads(candidate)
    if max(loads.values()) <= 1:
        return 1.0
    ways = list(_ways(model, candidate, loads))
    through = rate * sum(way.part / way.stretch for way in ways)
    decoder, kept = _decoder(model, candidate), 0.0
    for way in ways:
        slack = max(0.0, ttft - way.idle)
        late = slack / (way.stretch - 1) if way.stretch > 1 else math.inf
        if candidate.allocation.kind == "e-p-d":
            turn = decoder.tokens * (tpot - decoder.between(decoder.times.largest_batch(math.inf)))
        else:
            turn = slack
        slow = decoder.until(through / candidate.allocation.decoders, tpot, turn)
        kept += way.part * min(1.0, min(late, slow / way.stretch) * rate / requests)
    return kept


def _ways(model: LoadModel, candidate: Candidate, loads: Mapping[str, float]) -> Iterator[_Way]:
    shape, allocation = model.demand.shape, candidate.allocation
    local = shape.media_share * (1 - candidate.ratio)
    first = model.times(allocation.tp).first_token()
    wide = model.times(allocation.encode_tp if allocation.encoders else allocation.tp)
    encode = wide.batch(max(math.ceil(shape.items / (allocation.encoders or 1)), model.usual_batch(candidate)))
    encoding, remote = max(1.0, loads.get("encode", 0.0)), max(1.0, loads.get("prefill", 0.0))
    if text := 1 - shape.media_share:
        yield _Way(text, first, remote)
    if media := shape.media_share - local:
        yield _Way(media, encode + first, max(encoding, remote))
    if local:
        yield _Way(local, encode + wide.first_token(), max(encoding, loads["local prefill"]))


def _decoder(model: LoadModel, candidate: Candidate) -> _Decoder:
    times = model.times(candidate.allocation.tp)
    match candidate.allocation.kind:
        case "aggregated":
            return _Decoder(times, times.encode(candidate.batch) + times.prefill(), 0.0)
        case "colocated":
            busy = min(1.0, model.demand.rate * times.encode(candidate.batch, 1.0, 1.0) / candidate.allocation.encoders)
            return _Decoder(times, times.prefill(1.0, busy), busy)
        case "e-pd":
            return _Decoder(times, times.prefill(), 0.0)
        case "e-p-d":
            return _Decoder(times, 0.0, 0.0)


def _or_infinite(objective: float | None) -> float:
    return math.inf if objective is None else objective
