"""Trials that are kept: a search that is broken off goes on as if nothing had been, and questions do not mix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from easerve.errors import BadRequest
from easerve.search.explore import Tried
from easerve.search.methods import METHODS, Method
from easerve.search.outcome import Outcome
from easerve.search.prune import prune
from easerve.search.space import Candidate
from easerve.search.study import Study
from easerve.search.tuning import Findings, tune

from .cases import case, space

QUESTION = {"model": "m", "rate": 2.0, "slo": {"ttft": 1.0}}


class Counted:
    """A trial that breaks off after so many calls."""

    def __init__(self, most: int = 10**9) -> None:
        self.calls: list[tuple[Candidate, int]] = []
        self._most = most
        self._model, self._trial = case(3, load=1.0, most=100)

    def __call__(self, candidate: Candidate, seed: int) -> Outcome:
        if len(self.calls) == self._most:
            raise KeyboardInterrupt
        self.calls.append((candidate, seed))
        return self._trial(candidate, seed)

    def search(self, method: Method, file: Path | None) -> Findings:
        trial = self if file is None else Study(self, file, QUESTION)
        everything = space(self._model)
        return tune(
            method, everything, prune(self._model, everything, self._trial.requests), trial, "goodput", trials=12
        )


@pytest.mark.parametrize("method", [method for method in METHODS if method != "exhaustive"])
def test_a_search_broken_off_and_resumed_is_the_same_search(method: Method, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "study.jsonl"
    whole = Counted().search(method, None)
    with pytest.raises(KeyboardInterrupt):
        Counted(5).search(method, file)
    with file.open("a") as written:
        written.write('{"seed": 0, "candi')  # killed while writing
    rest = Counted()
    assert rest.search(method, file) == whole
    assert len(rest.calls) == len(whole.tried) + 6 - 5
    again = Counted(0)
    assert again.search(method, file) == whole


def test_methods_share_what_they_have_in_common(tmp_path: Path) -> None:
    file = tmp_path / "study.jsonl"
    Counted().search("has", file)
    whole, fewer = Counted(), Counted()
    assert fewer.search("random", file) == whole.search("random", None)
    assert len(fewer.calls) < len(whole.calls)


def test_another_question_is_refused_with_what_differs(tmp_path: Path) -> None:
    file = tmp_path / "study.jsonl"
    Study(Counted(), file, QUESTION)
    with pytest.raises(BadRequest, match=r"rate.*give another file"):
        Study(Counted(), file, {**QUESTION, "rate": 3.0})
    assert json.loads(file.read_text().splitlines()[0]) == {"question": QUESTION}


def test_what_no_request_answered_is_kept_too(tmp_path: Path) -> None:
    infinite = Outcome(0.0, 0.0, float("inf"), float("inf"))
    candidate = next(iter(space(Counted()._model)))
    file = tmp_path / "study.jsonl"
    Study(lambda one, seed: infinite, file, QUESTION)(candidate, 1)
    kept = Study(Counted(0), file, QUESTION)
    assert Tried(candidate, kept(candidate, 1)).outcome == infinite and len(kept) == 1
