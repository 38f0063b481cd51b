"""How long encode takes for a batch on a part of the device, as measured, and made fit to decide by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True)
class EncodeProfile:
    """`seconds[i][j]`: encode of `batches[i]` items on `units[j]` units (SMs, cores); the last is the whole device.

    On a part of the device it is the time beside a prefill that runs on the rest; on the whole device, alone.
    """

    batches: tuple[int, ...]
    units: tuple[int, ...]
    seconds: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        _check_ascending("batches", self.batches)
        _check_ascending("units", self.units)
        if len(self.seconds) != len(self.batches) or any(len(row) != len(self.units) for row in self.seconds):
            raise ValueError(f"there must be {len(self.units)} times for each of {len(self.batches)} batches")
        if not all(0 < value < float("inf") for row in self.seconds for value in row):
            raise ValueError("times must be above 0 seconds, and finite")

    @property
    def whole(self) -> int:
        """Units of the device."""
        return self.units[-1]

    def monotone(self) -> EncodeProfile:
        """More units never slower, more items never faster: the running minimum over units, then the running maximum
        over batches. What a measurement says otherwise is noise, or what a smaller share could do as well."""
        faster = [tuple(accumulate(row, min)) for row in self.seconds]
        slower = accumulate(faster, lambda above, row: tuple(map(max, above, row)))
        return EncodeProfile(self.batches, self.units, tuple(slower))


def _check_ascending(name: str, values: Sequence[int]) -> None:
    if not values or values[0] < 1 or any(low >= high for low, high in pairwise(values)):
        raise ValueError(f"{name} must be positive and ascending, not {values}")
