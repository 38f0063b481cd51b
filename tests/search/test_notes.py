"""A plan says what to beware of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from easerve.costs.profile_file import write_profile
from easerve.search.deploying import deployment
from easerve.search.explore import Tried
from easerve.search.notes import notes
from easerve.search.outcome import Outcome
from tests.costs.test_profile import made_up

from .test_bounds import HERE


@pytest.mark.parametrize(("share", "told"), [(0.95, False), (0.6, True)])
def test_a_plan_that_kept_few_requests_within_the_objectives_says_so(share: float, told: bool, tmp_path: Path) -> None:
    """Even where its loads would let all of them be."""
    path = tmp_path / "profile.json"
    write_profile(made_up(), path)
    prepared = replace(HERE, profile=path).prepare()
    rate, chosen = prepared.demand.rate, next(iter(prepared.space))
    assert max(prepared.model.loads(chosen).values()) < 1
    made = deployment(chosen, HERE.machine, prepared.demand, prepared.base)
    said = list(notes(prepared, Tried(chosen, Outcome(share * rate, rate, 1.0, 0.1)), made))
    assert any("within the objectives" in one for one in said) == told
