"""A TPOT is believed if decode can have been so fast, and not if tokens came in bunches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.bench.generator import Observed
from easerve.bench.metrics import summarise
from easerve.bench.objectives import EVERY
from easerve.bench.record import Record
from easerve.bench.report import Run
from easerve.bench.workers import Utilisation

from .scripts import TokenPace

STEP = st.tuples(st.floats(0.001, 0.1), st.sets(st.integers(0, 5), min_size=1))  # seconds, sequences that it runs


def _run(answers: Sequence[Sequence[float]], busy: float) -> Run:
    """Answers by when their tokens came; the decode worker was busy for so long, and the prefill worker longer."""
    records = [
        Record(index, "image", 1, 0.0, 0.0, list(times), list(times), times[-1], 10, len(times))
        for index, times in enumerate(answers)
    ]
    before = {("decode-0", "prefill/decode"): 1.0, ("encode-0", "prefill/decode"): 1.0, ("encode-0", "encode"): 0.0}
    after = {
        ("decode-0", "prefill/decode"): 1.0 + busy,
        ("encode-0", "prefill/decode"): 99.0,
        ("encode-0", "encode"): 9.0,
    }
    end = max(times[-1] for times in answers)
    observed = Observed(records, end, [], 0.0, False)
    groups = {EVERY: summarise(records, end, None, [])}
    return Run(1.0, None, observed, groups, Utilisation([(0.0, before), (end, after)]))


@given(st.lists(STEP, min_size=1, max_size=40))
def test_tokens_that_come_as_they_are_made_are_believed(steps: list[tuple[float, set[int]]]) -> None:
    """However the steps are batched: each token is there when its step ends."""
    now, came = 0.0, {sequence: [0.0] for _, sequences in steps for sequence in sequences}
    for seconds, sequences in steps:
        now += seconds
        for sequence in sequences:
            came[sequence].append(now)
    pace = TokenPace.of(_run(list(came.values()), now))
    assert pace.seen >= pace.least * (1 - 1e-9)
    assert pace.credible


def test_a_tpot_of_answers_that_came_all_at_once_is_not() -> None:
    """As from a load generator that waited for its core for longer than an answer takes: 0.4 ms for steps of 12."""
    answers = [[start + 0.1 + token * 0.0004 for token in range(32)] for start in range(8)]
    run = _run(answers, 8 * 31 * 0.012)
    assert run.all.tpot is not None
    assert run.all.tpot.mean == pytest.approx(0.0004)
    pace = TokenPace.of(run)
    assert not pace.credible
    assert (pace.seen, pace.least) == (pytest.approx(0.0004), pytest.approx(0.012))


def test_where_nothing_was_decoded_there_is_nothing_to_doubt() -> None:
    assert TokenPace.of(_run([[0.1], [0.2]], 0.0)).credible
