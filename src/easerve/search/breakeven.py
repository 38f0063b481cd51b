"""Where giving encode devices of its own begins to pay: by media items a request and by length of the answer.

A map of loads (seconds to make), not of trials: above 1 the best-balanced split carries that many times the rate of the
best deployment without one. Derived here.
"""

from __future__ import annotations

from dataclasses import replace

from easerve.search.advice import TOGETHER
from easerve.search.demand import Shape
from easerve.search.loads import LoadModel
from easerve.search.space import Space

ITEMS = (1, 2, 4, 8, 16)
OUTPUTS = (32, 128, 512, 2048)


def gains(planned: LoadModel, space: Space) -> dict[tuple[int, int], float]:
    """By (items, output tokens). Items are the workload's mean item, and add their tokens to the prompt."""
    coarse = replace(space, batches=(1, 8), ratios=(0.25, 0.5, 0.75, 1.0))
    demand, found = planned.demand, {}
    for items in ITEMS:
        for outputs in OUTPUTS:
            model = planned.under(replace(demand, shape=_with(demand.shape, items, outputs)))
            loads = {one: model.balanced(one, coarse).load for one in space.allocations if model.fits(one.tp)}
            apart = min((load for one, load in loads.items() if one.kind not in TOGETHER), default=None)
            together = min((load for one, load in loads.items() if one.kind in TOGETHER), default=None)
            if apart and together:
                found[items, outputs] = together / apart
    return found


def _with(shape: Shape, items: int, outputs: int) -> Shape:
    text = shape.prompt_tokens - round(shape.items * shape.item.tokens)
    return replace(shape, items=items, prompt_tokens=text + items * shape.item.tokens, output_tokens=outputs)
