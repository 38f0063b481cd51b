"""Benchmarks in virtual time, with few requests: whole pages, not their figures."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from easerve.errors import BadRequest
from easerve.scenarios.library import find_scenario

from .conftest import Run
from .sane import NUMBER, tables


def test_ablations_fill_every_cell(here: Run) -> None:
    assert here("ablations.py", "--requests", "1", "--page", "page.md") == ""
    page = Path("page.md").read_text()
    found = tables(page)
    shapes = [(len(rows) - 1, len(rows[0]) - 1) for rows in found]
    assert shapes == [(6, 6), (11, 2), (4, 4), (4, 4)]
    assert {row[0] for row in found[0][1:]} == {"greedy", "count", "age", "gap", "control_limit", "smdp"}
    cells = [cell for rows in found for row in rows[1:] for cell in row[1:]]
    assert all(float(number) >= 0 for cell in cells for number in NUMBER.findall(cell))
    assert all(NUMBER.search(cell) and "nan" not in cell and "inf" not in cell for cell in cells)


def test_published_scenarios_have_a_line_for_each_figure_and_a_summary(here: Run) -> None:
    names = ["dynamo-mixed", "easerve-table6", "easerve-has", "epdserve-objectives"]
    chosen = [word for name in names for word in ("--scenario", name)]
    page = here("published.py", *chosen, "--requests", "2")
    summary, *sections = tables(page)
    assert [row[0] for row in summary[1:]] == [*names, "**all**"]
    for name, rows in zip(names, sections, strict=True):
        scenario = find_scenario(name)
        assert [row[0] for row in rows[1:]] == [row.name for row in scenario.rows]
        simulated = [float(row[2]) for row in rows[1:]]
        assert all(math.isfinite(figure) for figure in simulated)
        assert f"Source: {scenario.source}." in page
    with pytest.raises(BadRequest, match="no-such"):
        here("published.py", "--scenario", "no-such")


def test_searches_are_compared_by_every_method_and_their_trials_are_kept(here: Run) -> None:
    arguments = ("image-ada", "--requests", "2", "--studies", "kept")
    told = here("search.py", *arguments)
    rows = re.findall(r"^  (\w+) +(\d+) trials  goodput ([\d.]+) \(([\d.]+)%\)  (\S.*)$", told, re.MULTILINE)
    assert [name for name, *_ in rows] == ["exhaustive", "has", "random", "coordinate"]
    assert all(int(trials) > 0 and float(goodput) > 0 for _, trials, goodput, *_ in rows)
    assert rows[0][3] == "100.0" and "the best was" in told
    (study,) = Path("kept").glob("image-ada-*.jsonl")
    before = study.read_text()
    assert here("search.py", *arguments) == told and study.read_text() == before
