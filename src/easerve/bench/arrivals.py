"""When requests are sent: moments in seconds from the start, pure functions of a seeded generator.

A run of few requests offers a rate that is off by 1/sqrt(n). Where the number of requests is known, their moments are
therefore stretched so that the last is sent at n/rate, as vLLM's bench does: runs of one rate then differ in when
requests come, not in how many a second. The ratios of the gaps, and with them their CV, stay as they were drawn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain, count, islice, repeat, takewhile
from pathlib import Path
from random import Random
from typing import Literal

from easerve.errors import BadRequest

LEAST_CV = 1e-3  # below it gaps are as good as constant
Name = Literal["poisson", "gamma", "constant", "burst", "trace"]


@dataclass(frozen=True)
class Arrivals:
    """`cv` is that of gamma's gaps, `burst` how many come at once, `trace` a file with a moment a line."""

    name: Name = "poisson"
    cv: float = 1.0
    burst: int = 8
    trace: Path | None = None

    def moments(self, rate: float, rng: Random, requests: int | None, seconds: float | None) -> list[float]:
        """At most `requests` moments before `seconds`; one of the two must be given (a trace has an end by itself)."""
        if self.name == "trace":
            return _traced(self.trace, requests, seconds)
        if requests is None and seconds is None:
            raise ValueError("arrivals need an end: a number of requests or a duration")
        check_rate(rate)
        moments = islice(_DRAWN[self.name](self, rate, rng), requests)
        if requests is None:
            return list(takewhile(lambda moment: moment < (seconds or 0), moments))
        stretched = list(moments) if self.name in ("constant", "burst") else _stretched(list(moments), requests / rate)
        return stretched if seconds is None else [moment for moment in stretched if moment < seconds]


def check_rate(rate: float) -> None:
    """Raises BadRequest for what is no rate of requests."""
    if not 0 < rate < math.inf:
        raise BadRequest(f"the rate must be above 0 requests a second and finite, not {rate:g}")


def poisson(rate: float, rng: Random) -> Iterator[float]:
    """Exponential gaps."""
    return accumulate(rng.expovariate(rate) for _ in count())


def gamma(rate: float, cv: float, rng: Random) -> Iterator[float]:
    """Gamma gaps of mean 1/rate; shape 1/cv^2 (vLLM calls the shape burstiness). cv 1 is Poisson, 0 is constant."""
    if cv < 0:
        raise BadRequest(f"the CV of gaps cannot be below 0, as {cv:g} is")
    if cv < LEAST_CV:
        return constant(rate)
    shape = cv**-2
    return accumulate(rng.gammavariate(shape, 1 / (rate * shape)) for _ in count())


def constant(rate: float) -> Iterator[float]:
    """Equal gaps."""
    return (number / rate for number in count(1))


def bursts(rate: float, size: int) -> Iterator[float]:
    """`size` at once, every size/rate seconds, the first burst at once."""
    if size < 1:
        raise BadRequest(f"a burst has at least one request, not {size}")
    return chain.from_iterable(repeat(number * size / rate, size) for number in count())


def _stretched(moments: list[float], span: float) -> list[float]:
    factor = span / moments[-1] if moments and moments[-1] > 0 else 1.0
    return [moment * factor for moment in moments]


def _traced(path: Path | None, requests: int | None, seconds: float | None) -> list[float]:
    """A number a line, or JSON lines with `timestamp`; the first request is sent at once."""
    if path is None:
        raise BadRequest("trace arrivals need a file: --trace FILE")
    moments = sorted(_moment(path, number, line) for number, line in enumerate(_lines(path), 1) if line.strip())
    if not moments:
        raise BadRequest(f"{path} holds no moments: write seconds, or JSON with timestamp, one a line")
    kept = [moment - moments[0] for moment in islice(moments, requests)]
    return kept if seconds is None else [moment for moment in kept if moment < seconds]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BadRequest(f"{path}: {error.strerror}") from error


def _moment(path: Path, number: int, line: str) -> float:
    try:
        value = json.loads(line)
        moment = float(value["timestamp"] if isinstance(value, dict) else value)
        if math.isfinite(moment):
            return moment
        raise ValueError("no moment")
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{path}, line {number}: wanted seconds, or JSON with timestamp, not {line!r}") from error


_DRAWN: Mapping[str, Callable[[Arrivals, float, Random], Iterator[float]]] = {
    "poisson": lambda this, rate, rng: poisson(rate, rng),
    "gamma": lambda this, rate, rng: gamma(rate, this.cv, rng),
    "constant": lambda this, rate, rng: constant(rate),
    "burst": lambda this, rate, rng: bursts(rate, this.burst),
}
