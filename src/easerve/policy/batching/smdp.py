"""The best control limit: with how many waiting items an idle worker should start, given T(b) = alpha + beta * b.

A semi-Markov decision process with Poisson arrivals at `rate` per worker; the state x is the queue length at an idle
epoch. *Wait* costs x / rate for a sojourn of 1 / rate; *serve* of b = min(x, B) items costs
x * T(b) + rate * T(b)^2 / 2 + price * T(b) for a sojourn of T(b): the item-seconds spent waiting or in service, and
what the device is worth elsewhere. That serving from some M on is best is known (Deb and Serfozo 1973; Xu, Zhou and Niu
2023 for service that depends on the batch); the formulation is derived here. Howard's policy iteration solves the same
optimality equations as value iteration, exactly and without slowing down as the load grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property


def control_limit(rate: float, alpha: float, beta: float, price: float, max_items: int) -> int:
    """M*: serve when at least so many items wait, 1 to `max_items` (B).

    `rate` is per second and worker, `alpha` and `beta` are seconds, `price` is in waiting items: a second of the device
    is worth as much as that many items not waiting for a second. Raises ValueError unless 0 < rate * T(B) < B.
    """
    problem = _Problem(rate, alpha, beta, price, max_items)
    if not 0 < problem.load < 1:
        raise ValueError(f"the load must be above 0 and below 1, not {problem.load:.3g}")
    serves = [False] + [True] * max_items
    while (better := problem.improve(serves)) != serves:
        serves = better
    return serves.index(True)


@dataclass(frozen=True)
class _Problem:
    rate: float
    alpha: float
    beta: float
    price: float
    max_items: int

    @property
    def load(self) -> float:
        return self.rate * self._seconds(self.max_items) / self.max_items

    @cached_property
    def _top(self) -> int:
        """The longest queue with an unknown of its own; beyond it the values grow as those of a steady drain."""
        return max(2 * self.max_items, 4)

    @cached_property
    def _drain(self) -> float:
        """Items by which a long queue shrinks per second."""
        return self.max_items / self._seconds(self.max_items) - self.rate

    @cached_property
    def _arrivals(self) -> list[list[float]]:
        """By batch size: the probabilities of 0, 1, 2... arrivals while it is served."""
        return [_poisson(self.rate * self._seconds(size)) for size in range(self.max_items + 1)]

    def _seconds(self, items: int) -> float:
        return self.alpha + self.beta * items

    def improve(self, serves: list[bool]) -> list[bool]:
        """The policy that is best in every state given what `serves` leads to; `serves` itself once it is optimal."""
        gain, *values = _solve([self._equation(x, x >= len(serves) or serves[x]) for x in range(self._top + 1)])
        values = [gain, 0.0, *values]
        better = serves.copy()
        for x in range(1, self.max_items):
            serve, wait = (self._cost(x, action, values) for action in (True, False))
            if abs(serve - wait) > 1e-9 * (1 + abs(wait)):
                better[x] = serve < wait
        return better

    def _equation(self, x: int, serve: bool) -> list[float]:
        """value(x) = cost - gain * sojourn + expected value after: coefficients of [gain, value(1)...] and the rest."""
        gain, *after, cost = self._terms(x, serve)
        row = [-gain, *(-coefficient for coefficient in after), cost]
        row[1 + x] += 1.0
        del row[1]  # value(0) is 0
        return row

    def _cost(self, x: int, serve: bool, values: list[float]) -> float:
        *terms, cost = self._terms(x, serve)
        return cost + sum(term * value for term, value in zip(terms, values, strict=True))

    def _terms(self, x: int, serve: bool) -> list[float]:
        """What an action leads to: coefficients of [gain, value(0), value(1)...], and its cost."""
        terms = [0.0] * (self._top + 3)
        if not serve:
            terms[0], terms[-1] = -1 / self.rate, x / self.rate
            terms[1 + x + 1] = 1.0
            return terms
        size = min(x, self.max_items)
        seconds = self._seconds(size)
        terms[0] = -seconds
        terms[-1] = x * seconds + self.rate * seconds**2 / 2 + self.price * seconds
        for arrived, probability in enumerate(self._arrivals[size]):
            self._add_value(terms, x - size + arrived, probability)
        return terms

    def _add_value(self, terms: list[float], x: int, probability: float) -> None:
        beyond = x - self._top
        if beyond <= 0:
            terms[1 + x] += probability
        else:  # second differences of 1 / drain
            terms[1 + self._top] += probability * (1 + beyond)
            terms[self._top] -= probability * beyond
            terms[-1] += probability * beyond * (beyond + 1) / 2 / self._drain


def _poisson(mean: float) -> list[float]:
    """Probabilities of 0, 1, 2... up to where next to nothing is left, which the last one takes."""
    probabilities = [math.exp(-mean)]
    left = 1 - probabilities[0]
    while left > 1e-9:
        probabilities.append(probabilities[-1] * mean / len(probabilities))
        left -= probabilities[-1]
    probabilities[-1] += left
    return probabilities


def _solve(rows: list[list[float]]) -> list[float]:
    """Solution of linear equations given as coefficients and right-hand side; Gauss with partial pivoting."""
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column]
        for row in range(column + 1, size):
            if factor := rows[row][column] / head[column]:
                rows[row] = [mine - factor * its for mine, its in zip(rows[row], head, strict=True)]
    solution = [0.0] * size
    for row in reversed(range(size)):
        known = sum(rows[row][column] * solution[column] for column in range(row + 1, size))
        solution[row] = (rows[row][size] - known) / rows[row][row]
    return solution
