"""Which part of a device encode holds: while one of its batches runs, and between them.

The three settings of the paper's comparison (EAServe, arXiv 2609.31551). Local prefill has what encode does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from easerve.policy.partition.profile import EncodeProfile
from easerve.policy.partition.table import SafeRange, ShareTable


class Partitioning(Protocol):
    """Units (SMs, cores) are counted as the profile counts them; None stands for no partition."""

    @property
    def idle(self) -> int | None:
        """What encode holds between its batches; None: nothing, all is prefill's."""
        ...

    def during(self, items: int, rate: float = 0.0) -> int | None:
        """What encode holds while a batch of `items` runs, `rate` items arriving a second (0: not known). None: the
        device is not partitioned, both stages run on all of it."""
        ...


class Dynamic:
    """The smallest share that is safe for the batch; the whole device is prefill's between batches."""

    idle: int | None = None

    def __init__(self, profile: EncodeProfile, safe: SafeRange | None = None) -> None:
        self._table = ShareTable(profile, safe or SafeRange())
        self.collapsed = self.during(1) is None  # no batch has a safe share: as if there were no local prefill

    def during(self, items: int, rate: float = 0.0) -> int | None:
        return self._table.share(items, rate)


class Static:
    """The same share always: the one of `choices` that is nearest to `units`."""

    def __init__(self, units: float, choices: Sequence[int]) -> None:
        if not choices:
            raise ValueError("this device cannot be split, so no part of it can be encode's own")
        self.idle: int | None = min(choices, key=lambda choice: abs(choice - units))

    def during(self, items: int, rate: float = 0.0) -> int | None:
        return self.idle


class Unpartitioned:
    """Both stages on the whole device."""

    idle: int | None = None

    def during(self, items: int, rate: float = 0.0) -> int | None:
        return None
