"""A search as JSON: every allocation, every trial. Times are seconds; what was never reached is null."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from easerve.bench.document import heading
from easerve.search.advice import Side
from easerve.search.explore import Tried
from easerve.search.outcome import Outcome
from easerve.search.prune import Verdict
from easerve.search.tuning import Findings


def document(
    question: Mapping[str, Any], verdicts: Sequence[Verdict], findings: Findings, command: str, notes: Sequence[str]
) -> dict[str, Any]:
    """`question` is what was asked, `command` what was typed, `notes` what to beware of."""
    return {
        **heading(command),
        "question": question,
        "allocations": [verdict_json(one) for one in verdicts],
        "method": findings.method,
        "objective": findings.objective,
        "ended_by": findings.reason,
        "trials": [tried_json(one) for one in findings.tried],
        "finalists": [tried_json(one) for one in findings.finals],
        "best": tried_json(findings.best),
        "notes": list(notes),
    }


def verdict_json(one: Verdict) -> dict[str, Any]:
    chosen = one.balanced.candidate
    return {
        "allocation": str(one.allocation),
        "load": one.balanced.load,
        "loads": dict(one.balanced.loads),
        "balanced_at": {"batch": chosen.batch, "remote_ratio": chosen.ratio},
        "dropped": one.dropped or None,
    }


def tried_json(one: Tried) -> dict[str, Any]:
    return {"name": str(one.candidate), **asdict(one.candidate), "outcome": outcome_json(one.outcome)}


def outcome_json(one: Outcome) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in asdict(one).items()}


def advice_document(
    question: Mapping[str, Any],
    sides: Sequence[Side],
    said: Sequence[str],
    gains: Mapping[tuple[int, int], float],
    command: str,
) -> dict[str, Any]:
    """Best first; `gains` by media items and output tokens."""
    return {
        **heading(command),
        "question": question,
        "best": sides[0].topology,
        "topologies": [
            {
                "topology": side.topology,
                "name": str(side.balanced.candidate),
                **asdict(side.balanced.candidate),
                "loads": dict(side.balanced.loads),
                "outcome": outcome_json(side.outcome),
            }
            for side in sides
        ],
        "reasons": list(said),
        "gain_of_encode_devices": [
            {"items": items, "output_tokens": outputs, "gain": gain} for (items, outputs), gain in gains.items()
        ],
    }
