"""Trials that are kept in a file, so that a search that was broken off goes on where it was.

The file holds outcomes and nothing of the method's state: methods are deterministic, so the same search asks for the
same trials again and finds them answered. One file may serve several methods; they share what they have in common.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from easerve.errors import BadRequest
from easerve.search.outcome import Outcome, Trial
from easerve.search.space import Candidate


class Study:
    """A trial that runs what `path` does not hold yet, and adds it. JSON lines; the first says what was asked."""

    def __init__(self, trial: Trial, path: Path, question: Mapping[str, Any]) -> None:
        """Raises BadRequest if the file holds trials of another question, and names what differs."""
        self._trial = trial
        self._path = path
        self._known: dict[str, Outcome] = {}
        if path.exists() and path.read_text():
            self._read(question)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._add({"question": question})

    def __call__(self, candidate: Candidate, seed: int) -> Outcome:
        key = {"seed": seed, "candidate": asdict(candidate)}
        name = json.dumps(key)
        if name not in self._known:
            self._known[name] = self._trial(candidate, seed)
            self._add(key | {"outcome": asdict(self._known[name])})
        return self._known[name]

    def __len__(self) -> int:
        return len(self._known)

    def _read(self, question: Mapping[str, Any]) -> None:
        first, *lines = self._path.read_text().splitlines()
        before = _parsed(first).get("question", {})
        if changed := [name for name in {**before, **question} if before.get(name) != question.get(name)]:
            raise BadRequest(
                f"{self._path} holds trials of another question: it differs in {', '.join(changed)}; "
                "give another file, or remove it"
            )
        for line in lines:
            if found := _parsed(line):  # a line cut short by a kill is run again
                name = json.dumps({"seed": found["seed"], "candidate": found["candidate"]})
                self._known[name] = Outcome(**found["outcome"])
        kept = [first, *(line for line in lines if _parsed(line))]
        self._path.write_text("".join(f"{line}\n" for line in kept))

    def _add(self, line: Mapping[str, Any]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
