"""benchmarks/partition.py before it has started anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from easerve.config import problems, read_deployment

from .conftest import two_cores
from .scripts import partition


@two_cores
def test_what_is_compared_differs_in_the_partition_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["partition.py", "--slack", "0.2"])
    table = tmp_path / "shares.json"
    contenders = [partition._contender(one, tmp_path, table, partition._arguments()) for one in partition.NAMES]
    deployments = [read_deployment(tmp_path / f"{one}.yaml") for one in partition.NAMES]
    assert [one.name for one in contenders] == [one.partition for one in deployments] == ["none", "static", "dynamic"]
    assert [problems(one) for one in deployments] == [[], [], []]
    assert {one.model_copy(update={"partition": "none"}) for one in deployments} == {deployments[0]}
    assert (deployments[2].partition_table, deployments[2].partition_slack) == (table, 0.2)
