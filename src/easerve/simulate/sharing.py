"""Who holds which part of a device in virtual time: the partitioning rules over a profile that the costs give.

As a worker measures it at its start: batches of one size of item, on parts of the device beside a prefill, and alone
on all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from easerve.bench.clips import RATE
from easerve.costs.base import ItemSize, StageCosts
from easerve.engine.partition.options import PartitionOptions
from easerve.policy.partition import Dynamic, EncodeProfile, Partitioning, SafeRange, Static, Unpartitioned
from easerve.policy.rates import TokenRate
from easerve.request import Modality

WHOLE = 16  # parts that a device is counted in, as fine as SMs can be split where they come in groups of 8
CHOICES = tuple(range(2, WHOLE, 2))
# Height and width of what a batch is counted in; larger items count as several
UNITS: Mapping[Modality, tuple[int, int]] = {"image": (224, 224), "audio": (1, 5 * RATE)}


class Shares:
    """`held`: the part of the device that encode keeps even between batches."""

    def __init__(self, rule: Partitioning, item: ItemSize) -> None:
        self.held = (rule.idle or 0) / WHOLE
        self._rule = rule
        self._item = item
        self._arrivals = TokenRate()
        self._last: float | None = None

    def claim(self, batch: Sequence[ItemSize], now: float) -> float | None:
        """The part of the device that is this batch's own; None: it runs on all of it, with whatever else does."""
        items = max(1, round(sum(one.patches for one in batch) / self._item.patches))
        if self._last is not None:
            self._arrivals.observe(items, now - self._last)
        self._last = now
        units = self._rule.during(items, self._arrivals.tokens_per_second or 0.0)
        return None if units is None else units / WHOLE


def make_shares(options: PartitionOptions, costs: StageCosts, item: ItemSize) -> Shares:
    """What the options come to on a device of these costs; batches are counted in such items."""
    match options.name:
        case "none":
            rule: Partitioning = Unpartitioned()
        case "static":
            rule = Static(options.share * WHOLE, CHOICES)
        case "dynamic" | "auto":
            profile = _profile(costs, item, options.largest_batch)
            dynamic = Dynamic(profile, SafeRange(slack=options.slack))
            rule = Unpartitioned() if dynamic.collapsed else dynamic
    return Shares(rule, item)


def _profile(costs: StageCosts, item: ItemSize, largest: int) -> EncodeProfile:
    batches = tuple(range(1, largest + 1))
    rows = [[item] * batch for batch in batches]
    seconds = [
        (*(costs.encode(row, units / WHOLE, 1 - units / WHOLE) for units in CHOICES), costs.encode(row)) for row in rows
    ]
    return EncodeProfile(batches, (*CHOICES, WHOLE), tuple(seconds))
