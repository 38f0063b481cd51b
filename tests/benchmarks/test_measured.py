"""Benchmarks of this machine without servers, as small as they get: whether they measure, not what."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from easerve.policy.batching import RULES
from easerve.policy.offload import OFFLOADS
from easerve.policy.placement import PLACEMENTS

from .conftest import Run, RunApart
from .sane import are_positive, tables


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The scripts set torch's threads for their own process."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_policies_time_every_decision(here: Run) -> None:
    found = json.loads(here("policies.py", "--repeat", "20", "--json"))
    routers = [f"router, {name}" for name in [*PLACEMENTS, *OFFLOADS]]
    wanted = [f"arrival, {name}" for name in RULES] + ["arrival, gap, deadlines", *routers, "cache, lookup and unpin"]
    assert list(found) == wanted and are_positive(found)
    shown = here("policies.py", "--repeat", "1").splitlines()
    assert len(shown) == len(wanted) and all("wanted <=" in line for line in shown)


def test_stages_time_every_size(here: Run) -> None:
    found = json.loads(here("stages.py", "--model", "builtin", "--repeats", "1", "--json"))
    kinds = [name.split()[0] for name in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {"encode": 8, "prefill": 3, "decode": 3}
    assert are_positive(found)


def test_the_engine_is_timed_beside_a_bare_loop(here: Run) -> None:
    tiny = {"rounds": 1, "sequences": 2, "prompt": 8, "steps": 2, "width": 256, "layers": 1}
    told = here("engine_throughput.py", *(word for name, value in tiny.items() for word in (f"--{name}", str(value))))
    line = re.compile(r"(built-in|random 256x1): (decode|prefill) .* bare +(\d+) .* engine +(\d+) .* ratio +([\d.]+)")
    found = line.findall(told)
    models = [model for model, *_ in found]
    assert models == ["built-in"] * 2 + ["random 256x1"] * 2
    assert are_positive([[float(figure) for figure in figures] for _, _, *figures in found])


def test_every_backend_moves_every_size(apart: RunApart, tmp_path: Path) -> None:
    [[head, *rows]] = tables(apart("transfer.py", "--rounds", "1", "--json", "seconds.json"))
    seconds = json.loads((tmp_path / "seconds.json").read_text())
    assert list(seconds) == [row[0] for row in rows]
    for by_way in seconds.values():
        assert {"shm", "zmq ipc", "zmq tcp"} <= set(by_way) and len(by_way) == len(head) - 1
        assert all(len(rounds) == 1 for rounds in by_way.values())
    assert are_positive(seconds)
    assert all(float(cell) >= 0 for row in rows for cell in row[1:])
