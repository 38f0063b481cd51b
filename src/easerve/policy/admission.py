"""Which requests are let in: a bound on requests in flight, so that a burst is shed visibly and early."""

from __future__ import annotations


class Admission:
    """Counts requests in flight against `limit`."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"the admission limit must be at least 1, not {limit}")
        self.limit = limit
        self.in_flight = 0

    @property
    def full(self) -> bool:
        return self.in_flight >= self.limit

    def try_enter(self) -> bool:
        """Take a place; False when all are taken. Every True is answered by one `leave`."""
        if self.full:
            return False
        self.in_flight += 1
        return True

    def leave(self) -> None:
        self.in_flight -= 1
