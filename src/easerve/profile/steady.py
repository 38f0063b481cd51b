"""A profile as if the machine had kept its speed while it was taken.

A virtual machine beside others changes its speed by tens of percent within seconds, so that sizes that are measured one
after the other do not fit each other. Here a probe is read after each of them, and each time is corrected to the speed
that the machine had on average. Derived here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean, pstdev
from typing import Any

from msgspec.structs import replace

from easerve.costs.profile_file import Profile
from easerve.profile.plan import Stage
from easerve.profile.probe import Probe
from easerve.profile.run import Report
from easerve.profile.works import KINDS


class Steady:
    """`measured` is to be told of each point in place of `report`, in the order in which the profile has them."""

    def __init__(self, read: Probe, report: Report) -> None:
        self._read, self._report = read, report
        self._around: dict[str, list[float]] = defaultdict(list)  # mean of readings before and after a point
        self._last: dict[str, float] = {}

    def measured(self, stage: Stage, point: Any) -> None:
        self._report(stage, point)
        if stage in KINDS:
            now = self._read(stage)
            self._around[stage].append(fmean((self._last.get(stage, now), now)))
            self._last[stage] = now

    @property
    def reference(self) -> Mapping[str, float]:
        """Seconds of the probe, by kind, at the speed that the corrected profile has."""
        return {kind: fmean(found) for kind, found in self._around.items()}

    @property
    def spread(self) -> Mapping[str, float]:
        """Standard deviation of the readings, as a part of their mean."""
        return {kind: pstdev(found) / fmean(found) for kind, found in self._around.items()}

    def corrected(self, profile: Profile) -> Profile:
        return replace(profile, **{kind: self._points(getattr(profile, kind), kind) for kind in self._around})

    def _points(self, points: tuple[Any, ...], kind: str) -> tuple[Any, ...]:
        reference = self.reference[kind]
        return tuple(
            replace(point, seconds=point.seconds * reference / around)
            for point, around in zip(points, self._around[kind], strict=True)
        )
