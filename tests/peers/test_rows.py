"""The table's rows, the servers' commands, and the page they are shown on."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from easerve.bench.workloads import read_workload
from easerve.config import Deployment


def test_every_row_names_servers_that_there_are_and_a_workload_that_can_be_drawn(tmp_path: Path) -> None:
    from contenders import Machine, command
    from rows import ROWS

    machine = Machine(model=tmp_path / "a model", cores=(0, 1), vllm_python=Path("/a path/python"))
    for row in ROWS.values():
        read_workload(row.workload)
        for name in (*row.peers, row.ours):
            words = shlex.split(command(name, machine))
            assert words.count("{port}") == 1, "bench compare puts the port there"
            assert str(tmp_path / "a model") in words


def test_a_split_vllm_has_each_core_once() -> None:
    from contenders import SPLIT, Machine, command

    words = shlex.split(command(SPLIT, Machine(model=Path("m"), cores=(2, 3), vllm_python=Path("python"))))
    assert [words[words.index(name) + 1] for name in ("--encode-cores", "--generate-cores")] == ["2", "3"]


def test_our_topologies_are_deployments() -> None:
    from contenders import OURS

    known = set(Deployment.model_fields)
    for options in OURS.values():
        assert {word[2:].replace("-", "_") for word in shlex.split(options) if word.startswith("--")} <= known


def test_ratios_are_taken_within_rounds() -> None:
    from measure import Found
    from rows import Wanted

    found = Found.of(Wanted("them", "goodput, req/s", "at least", 1.5), ours=[4, 9, 2], theirs=[2, 3, 2])
    assert list(found.ratio.values) == [2, 3, 1]
    assert found.wanted.reached(found.ratio.middle)
    assert not replace(found.wanted, bound="at most").reached(found.ratio.middle)


def test_a_page_keeps_its_own_words_and_takes_the_newest_table(tmp_path: Path) -> None:
    from measure import Found, Measured
    from rows import ROWS
    from table import BEGIN, END, update_page, write_row

    page, row = tmp_path / "page.md", ROWS["image-heavy"]
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    for goodput in (3.0, 4.0):
        found = [Found.of(wanted, [goodput], [2.0]) for wanted in row.wanted]
        write_row(tmp_path, "image-heavy", row, Measured(found, {}, ["vllm-1e-1pd"]), "the command")
        update_page(page, tmp_path)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n")
    assert "old" not in text and "| 4 (4 to 4) | 2 (2 to 2) | 2 (2 to 2) | ≥ 5.5 | missed |" in text
    assert "≥ 1.1 | reached |" in text and "`the command`" in text
    assert "**suspect**: the load generator got no core in time beside vllm-1e-1pd" in text
    assert json.loads((tmp_path / "image-heavy.json").read_text())["command"] == "the command"
    with pytest.raises(ValueError, match="lacks"):
        update_page(tmp_path / "image-heavy.json", tmp_path)
