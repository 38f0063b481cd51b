"""How fast a worker is, in tokens per second, learnt while serving."""

from __future__ import annotations


class TokenRate:
    """Exponentially weighted tokens over exponentially weighted seconds: the rate at which the work of late was done.

    A mean of the single rates would favour the small and fast pieces; this one predicts the time of the sum.
    """

    def __init__(self, eta: float = 0.1) -> None:
        if not 0 < eta <= 1:
            raise ValueError(f"eta, the weight of the newest observation, must be in (0, 1], not {eta}")
        self._eta = eta
        self._tokens = 0.0
        self._seconds = 0.0
        self._known = False

    def observe(self, tokens: float, seconds: float) -> None:
        """`tokens` were worked off in `seconds`."""
        weight = self._eta if self._known else 1.0
        self._tokens += weight * (tokens - self._tokens)
        self._seconds += weight * (seconds - self._seconds)
        self._known = True

    @property
    def tokens_per_second(self) -> float | None:
        """None until some work took time."""
        return self._tokens / self._seconds if self._seconds > 0 else None
