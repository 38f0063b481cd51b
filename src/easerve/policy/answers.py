"""How many tokens a sequence may still bring, learnt while serving."""

from __future__ import annotations


class AnswerLength:
    """Exponentially weighted mean length of the answers that have ended.

    Nobody knows where an answer ends. Taken as equally likely to end at each token, what is still to come does not
    shrink with what has come: it is the mean, up to the limit that the request has set (derived here).
    """

    def __init__(self, eta: float = 0.05) -> None:
        if not 0 < eta <= 1:
            raise ValueError(f"eta, the weight of the newest answer, must be in (0, 1], not {eta}")
        self._eta = eta
        self._mean: float | None = None

    def observe(self, tokens: int) -> None:
        """An answer ended with so many tokens."""
        self._mean = tokens if self._mean is None else self._mean + self._eta * (tokens - self._mean)

    def expect(self, limit: int) -> int:
        """Tokens still to come, `limit` being the most there may; that itself as long as nothing is known."""
        return limit if self._mean is None else min(limit, max(1, round(self._mean)))
