"""What the demo found: answers against the truth, and stage times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from easerve.client import Answer

STAGES = ("decode_media", "encode_queue", "encode", "transfer", "prefill_queue", "prefill", "hand_over")
NEEDED = 0.95  # share of right answers


@dataclass(frozen=True)
class Asked:
    """One question with its pictures (as data URIs), the truth and the answer."""

    question: str
    pictures: Sequence[str]
    truth: str
    answer: Answer

    @property
    def right(self) -> bool:
        return self.answer.text.strip() == self.truth

    @property
    def times(self) -> dict[str, float]:
        """Milliseconds by stage, first token and total among them."""
        return {name: value for name, value in self.answer.timing.items() if isinstance(value, int | float)}


@dataclass(frozen=True)
class Report:
    """All questions; `judged` says whether right and wrong mean anything."""

    asked: Sequence[Asked]
    judged: bool

    @property
    def right(self) -> int:
        return sum(one.right for one in self.asked)

    @property
    def passed(self) -> bool:
        return not self.judged or self.right >= NEEDED * len(self.asked)

    def mean(self, stage: str) -> float:
        """Mean milliseconds over the questions that passed through the stage."""
        return fmean([one.times[stage] for one in self.asked if one.times.get(stage)] or [0.0])

    def workers(self) -> dict[str, list[str]]:
        """Which workers ran each stage."""
        found: dict[str, set[str]] = {}
        for one in self.asked:
            for stage, names in (one.answer.timing.get("workers") or {}).items():
                found.setdefault(stage, set()).update([names] if isinstance(names, str) else names or [])
        return {stage: sorted(names) for stage, names in found.items()}

    def summary(self) -> str:
        first, per_token = self.mean("first_token"), self.mean("per_token")
        times = f"mean time to first token {first:.1f} ms, then {per_token:.1f} ms a token"
        if not self.judged:
            return f"{len(self.asked)} answers (not judged: only the built-in model knows these scenes); {times}"
        return f"{self.right} of {len(self.asked)} answers right; {times}"

    def as_json(self) -> dict[str, Any]:
        return {
            "answers_total": len(self.asked),
            "answers_right": self.right if self.judged else None,
            "mean_ttft_ms": round(self.mean("first_token"), 3),
            "mean_tpot_ms": round(self.mean("per_token"), 3),
            "stages": {stage: round(self.mean(stage), 3) for stage in STAGES},
            "workers": self.workers(),
            "answers": [
                {"question": one.question, "pictures": len(one.pictures), "answer": one.answer.text, "truth": one.truth}
                for one in self.asked
            ],
        }
