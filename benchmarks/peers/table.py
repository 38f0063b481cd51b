"""Results as JSON, one file a row, and the table that docs/benchmarks.md shows of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure import Found, Measured
from rows import ROWS, Row

from easerve.bench.comparison import Spread
from easerve.bench.document import heading
from easerve.bench.markdown import markdown_table
from easerve.bench.marks import put_between
from easerve.bench.objectives import EVERY

BEGIN, END = "<!-- measured: written by benchmarks/peers/run.py -->", "<!-- end of measured -->"
COLUMNS = ("load", "against", "metric", "ours", "theirs", "ratio", "wanted", "")
SIGNS = {"at least": "≥", "at most": "≤"}


def write_row(folder: Path, name: str, row: Row, measured: Measured, command: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    content = {
        **heading(command),
        "row": name,
        "about": row.about,
        "ours": row.ours,
        "engine": row.engine,
        "found": [_found(one) for one in measured.found],
        "late": measured.late,
        "knees": measured.knees,
        "documents": measured.documents,
    }
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


def _found(one: Found) -> dict[str, Any]:
    return {
        "peer": one.wanted.peer,
        "metric": one.wanted.metric,
        "group": one.wanted.group,
        "wanted": f"{SIGNS[one.wanted.bound]} {one.wanted.ratio:g}",
        "reached": one.wanted.reached(one.ratio.middle),
        "ours": list(one.ours.values),
        "theirs": list(one.theirs.values),
        "ratio": list(one.ratio.values),
    }


def show(name: str, measured: Measured) -> Iterator[str]:
    """A line for a terminal per ratio."""
    for one in measured.found:
        sign = "reached" if one.wanted.reached(one.ratio.middle) else "MISSED"
        yield (
            f"{name}: {_metric(one.wanted.metric, one.wanted.group)} / {one.wanted.peer}: {one.ratio} "
            f"(ours {one.ours}, theirs {one.theirs}; wanted {SIGNS[one.wanted.bound]} {one.wanted.ratio:g}: {sign})"
        )


def update_page(page: Path, folder: Path) -> None:
    """Put the table of all rows with results in `folder` between the page's marks. Raises ValueError if it has none."""
    results = [json.loads(path.read_text()) for name in ROWS if (path := folder / f"{name}.json").is_file()]
    put_between(page, BEGIN, END, _markdown(results))


def _markdown(results: Sequence[Mapping[str, Any]]) -> str:
    lines = list(markdown_table(COLUMNS, (_cells(result["row"], one) for result in results for one in result["found"])))
    lines += ["", "All of it **measured**, the median of the rounds (lowest to highest), each row by its command:", ""]
    lines += [_told(result) for result in results]
    return "\n".join(lines) + "\n"


def _cells(row: str, one: Mapping[str, Any]) -> list[str]:
    spreads = [str(Spread(one[key])) for key in ("ours", "theirs", "ratio")]
    metric, mark = _metric(one["metric"], one["group"]), "reached" if one["reached"] else "missed"
    return [row, one["peer"], metric, *spreads, one["wanted"], mark]


def _told(result: Mapping[str, Any]) -> str:
    knees = result["knees"]
    rates = "; ".join(f"knee of {name} {Spread(several)} req/s" for name, several in (knees or {}).items())
    words = [f"`{result['command']}`", f"{result['about']} (ours: {result['ours']}, {result['engine']} engine)"]
    if late := result["late"]:
        words.append(f"**suspect**: the load generator got no core in time beside {', '.join(late)}")
    return f"- {result['row']}: " + "; ".join([*words, *([rates] if rates else []), result["ended"][:10]])


def _metric(metric: str, group: str) -> str:
    return metric if group == EVERY else f"{group}: {metric}"
