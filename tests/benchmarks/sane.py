"""What figures must be, however fast or slow the machine is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def numbers(found: Any) -> Iterator[float]:
    """All numbers of a JSON value."""
    if isinstance(found, Mapping):
        found = found.values()
    if isinstance(found, Iterable) and not isinstance(found, str):
        for one in found:
            yield from numbers(one)
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield float(found)


def are_positive(found: Any) -> bool:
    """Whether there are numbers, and all of them are finite and above zero."""
    every = list(numbers(found))
    return bool(every) and all(math.isfinite(one) and one > 0 for one in every)


def tables(page: str) -> list[list[list[str]]]:
    """The cells of each Markdown table, row by row without the rule under the head."""
    found: list[list[list[str]]] = []
    inside = False
    for line in page.splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        if not set(line) <= set("|-"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return found
