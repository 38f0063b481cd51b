"""Until when a queue shorter than the bound is held: the named rules.

`gap` is the paper's (EAServe, arXiv 2609.31551): dispatch when no item has come for a time inversely proportional to
the arrival rate. The others are what it has to be compared with. `make_rule` caps whatever holds by the age of the
oldest item, so that no rule starves the queue.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching.limits import ControlLimits
from easerve.policy.service import ServiceTime


@dataclass(slots=True)
class QueueState:
    """What a rule may look at: items waiting, arrival times of the oldest and the newest of them, and their tokens.

    The batcher changes it in place, rules only read it.
    """

    pending: int
    first: float
    last: float
    tokens: int = 0


class BatchRule(Protocol):
    """Until when to hold a queue that has reached neither the bound nor the token budget."""

    def hold_until(self, queue: QueueState) -> float:
        """Time at which the queue should be dispatched if nothing else arrives; the past means now."""
        ...


@dataclass(frozen=True)
class BatchOptions:
    """What the rules can be told."""

    gap_factor: float = 1.0  # gap: threshold in mean inter-arrivals (c), 0 to 2; 0 is greedy
    age_cap: float = 0.05  # seconds from the oldest item's arrival, for every rule (A)
    age_window: float = 1.0  # age: window in mean inter-arrivals (a)
    minimum: int = 2  # control_limit: items (M)
    device_price: float = 0.0  # smdp: items that might as well wait for a second as take a second of the device (w)
    max_items: int = 8  # smdp: the batch bound (B)

    def __post_init__(self) -> None:
        if not 0 <= self.gap_factor <= 2:
            raise ValueError(f"the gap factor must be between 0 and 2, not {self.gap_factor}")
        for name in ("age_cap", "age_window", "device_price"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} cannot be negative: {getattr(self, name)}")
        for name in ("minimum", "max_items"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


class Greedy:
    """Never hold: whatever is queued when a worker is free goes out."""

    def hold_until(self, queue: QueueState) -> float:
        return queue.first


class Count:
    """Hold until the bound is reached."""

    def hold_until(self, queue: QueueState) -> float:
        return math.inf


class Gap:
    """Hold until nothing has come for `factor` mean inter-arrivals; not at all while the rate is unknown."""

    def __init__(self, factor: float, rate: ArrivalRate) -> None:
        self._factor = factor
        self._rate = rate

    def hold_until(self, queue: QueueState) -> float:
        return queue.last + self._factor * (self._rate.mean_interarrival or 0.0)


class Age:
    """Hold the oldest item for `window` mean inter-arrivals; not at all while the rate is unknown."""

    def __init__(self, window: float, rate: ArrivalRate) -> None:
        self._window = window
        self._rate = rate

    def hold_until(self, queue: QueueState) -> float:
        return queue.first + self._window * (self._rate.mean_interarrival or 0.0)


class ControlLimit:
    """Hold until `minimum` items wait."""

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum

    def hold_until(self, queue: QueueState) -> float:
        return queue.first if queue.pending >= self._minimum else math.inf


class Smdp:
    """Hold until as many items wait as is best for the estimated load and service time; not while they are unknown."""

    def __init__(self, price: float, max_items: int, rate: ArrivalRate, service: ServiceTime) -> None:
        self._limits = ControlLimits(price, max_items)
        self._max_items = max_items
        self._rate = rate
        self._service = service

    def hold_until(self, queue: QueueState) -> float:
        mean, service = self._rate.mean_interarrival, self._service
        seconds = service.alpha + service.beta * self._max_items
        if mean is None or seconds == 0:
            return queue.first
        load = seconds / (mean * self._max_items) if mean > 0 else math.inf
        limit = self._limits.limit(load, service.alpha, service.beta)
        return queue.first if queue.pending >= limit else math.inf


class AgeCapped:
    """Another rule, but never longer than `age_cap` seconds from the oldest item's arrival."""

    def __init__(self, rule: BatchRule, age_cap: float) -> None:
        self._rule = rule
        self._age_cap = age_cap

    def hold_until(self, queue: QueueState) -> float:
        wanted, most = self._rule.hold_until(queue), queue.first + self._age_cap
        return most if most < wanted else wanted  # min() takes three times as long, on every arrival


RULES: dict[str, Callable[[BatchOptions, ArrivalRate, ServiceTime], BatchRule]] = {
    "gap": lambda options, rate, service: Gap(options.gap_factor, rate),
    "greedy": lambda options, rate, service: Greedy(),
    "count": lambda options, rate, service: Count(),
    "age": lambda options, rate, service: Age(options.age_window, rate),
    "control_limit": lambda options, rate, service: ControlLimit(options.minimum),
    "smdp": lambda options, rate, service: Smdp(options.device_price, options.max_items, rate, service),
}


def make_rule(name: str, options: BatchOptions, rate: ArrivalRate, service: ServiceTime) -> BatchRule:
    """The rule of that name under the age cap; it reads the two estimates whenever it is asked.

    Raises ValueError for a name that is not one.
    """
    if name not in RULES:
        raise ValueError(f"no batching rule {name!r}; there are {', '.join(RULES)}")
    return AgeCapped(RULES[name](options, rate, service), options.age_cap)
