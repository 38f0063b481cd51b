"""How long encode takes for a batch: T(b) = alpha + beta * b, learnt while serving. Derived here."""

from __future__ import annotations

FORGETTING = 0.98  # weight of an observation after the next: about fifty batches are remembered
LEAST_WEIGHT = 5.0  # batches remembered before they are trusted to tell alpha from beta
LEAST_SPREAD = 0.01  # variance of their sizes over the mean square, likewise


class ServiceTime:
    """Exponentially forgetting least squares for `alpha` (seconds per batch) and `beta` (seconds per item), both >= 0.

    Zero for both at the start means that nothing is known. Of few batches, or of batches of one size, only a mean can
    be learnt: the ratio of alpha to beta then stays as it was (without any, all is beta: batching promises no gain).
    """

    def __init__(self, alpha: float = 0.0, beta: float = 0.0) -> None:
        if alpha < 0 or beta < 0:
            raise ValueError(f"alpha and beta are seconds and cannot be negative: {alpha}, {beta}")
        self.alpha = alpha
        self.beta = beta
        self._shape = (alpha, beta) if alpha or beta else (0.0, 1.0)
        self._weight = self._items = self._squares = self._seconds = self._products = 0.0

    def observe(self, items: int, seconds: float) -> None:
        """A batch of `items` was encoded in `seconds`."""
        self._weight = FORGETTING * self._weight + 1
        self._items = FORGETTING * self._items + items
        self._squares = FORGETTING * self._squares + items * items
        self._seconds = FORGETTING * self._seconds + seconds
        self._products = FORGETTING * self._products + items * seconds
        spread = self._squares - self._items**2 / self._weight
        if self._weight >= LEAST_WEIGHT and spread > LEAST_SPREAD * self._squares:
            self._fit(spread)
        else:
            self._scale()

    def predict(self, items: int) -> float:
        """Seconds for a batch of `items`; 0 while nothing is known."""
        return self.alpha + self.beta * items

    def _fit(self, spread: float) -> None:
        """The best line with neither part negative."""
        beta = (self._products - self._items * self._seconds / self._weight) / spread
        alpha = (self._seconds - beta * self._items) / self._weight
        if beta < 0:
            alpha, beta = self._seconds / self._weight, 0.0
        elif alpha < 0:
            alpha, beta = 0.0, self._products / self._squares
        self.alpha, self.beta = alpha, beta
        if alpha or beta:
            self._shape = alpha, beta

    def _scale(self) -> None:
        """The shape known so far, through the mean of what was observed."""
        alpha, beta = self._shape
        factor = self._seconds / (alpha * self._weight + beta * self._items)
        self.alpha, self.beta = alpha * factor, beta * factor
