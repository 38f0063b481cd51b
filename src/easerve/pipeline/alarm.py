"""A call that is made once, at the earliest of the times it was asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Times are of the running loop; one that has passed means once everything that is already due has run."""

    def __init__(self, ring: Callable[[], None]) -> None:
        """`ring` turns the alarm off before it sets it anew."""
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._ring)

    def off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
