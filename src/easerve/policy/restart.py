"""When a worker that died is started again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RestartRule:
    """At once the first time, then with delays that double, up to a longest; a life long enough clears the record."""

    most_in_a_row: int = 10  # deaths without a long enough life between them; 0: never restart
    first_delay: float = 0.5  # seconds, from the second death in a row on
    longest_delay: float = 30.0
    long_enough: float = 60.0  # seconds of life

    def delay(self, deaths: int) -> float | None:
        """Seconds to wait after that many deaths in a row (1: the first); None: give it up."""
        if deaths > self.most_in_a_row:
            return None
        if deaths <= 1:
            return 0.0
        return min(self.longest_delay, self.first_delay * 2.0 ** (deaths - 2))
