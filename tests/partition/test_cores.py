"""Real threads on real cores."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from easerve.engine.partition.base import MOST_SHARES, thinned
from easerve.engine.partition.cores import CorePartition
from easerve.engine.partition.opening import open_partition

from .conftest import two_cores


@pytest.fixture
def partition() -> Iterator[CorePartition]:
    made = CorePartition(sorted(os.sched_getaffinity(0))[:2])
    yield made
    made.close()


def _here() -> tuple[frozenset[int], int]:
    """Cores and threads of the calling thread, after work that needs a team."""
    torch.randn(600, 600) @ torch.randn(600, 600)
    return frozenset(os.sched_getaffinity(0)), torch.get_num_threads()


@two_cores
def test_stages_run_on_complementary_cores_with_as_many_threads(partition: CorePartition) -> None:
    first, second = sorted(os.sched_getaffinity(0))[:2]
    assert partition.choices == (1,)
    assert partition.encode(1, _here) == ({first}, 1)
    assert partition.prefill(1, _here) == ({second}, 1)
    assert partition.encode(None, _here) == partition.prefill(None, _here) == ({first, second}, 2)
    assert partition.encode(1, _here) == ({first}, 1)


@two_cores
def test_the_thread_that_made_it_and_threads_to_come_keep_their_count() -> None:
    torch.set_num_threads(1)
    found: list[int] = []
    made = CorePartition(sorted(os.sched_getaffinity(0))[:2])
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    made.close()
    assert (torch.get_num_threads(), found) == (1, [1])


@two_cores
def test_no_thread_is_left_behind() -> None:
    """Teams included: they end with the thread that leads them, a moment later."""
    before = _threads_of_a_use()
    for _ in range(3):
        left = _threads_of_a_use()
    for _ in range(500):
        if left <= before:
            break
        time.sleep(0.01)
        left = _threads()
    assert left <= before


def _threads_of_a_use() -> int:
    made = CorePartition(sorted(os.sched_getaffinity(0))[:2])
    for held in (None, 1):
        made.encode(held, _here)
        made.prefill(held, _here)
    made.close()
    return _threads()


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


@two_cores
def test_an_error_reaches_whoever_asked(partition: CorePartition) -> None:
    with pytest.raises(ZeroDivisionError):
        partition.encode(1, lambda: 1 // 0)
    assert partition.encode(1, lambda: "next") == "next"


def test_one_core_cannot_be_split_and_that_is_no_error() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        alone = open_partition(torch.device("cpu"), split=True)
    finally:
        os.sched_setaffinity(0, before)
    assert (alone.whole, alone.choices) == (1, ())
    assert alone.encode(None, lambda: "made") == "made"


@pytest.mark.parametrize("cores", [2, 9, 10, 96])
def test_shares_are_few_and_spread(cores: int) -> None:
    shares = thinned(range(1, cores))
    assert len(shares) <= MOST_SHARES
    assert shares[0] == 1
    assert len({after - before for before, after in pairwise(shares)}) <= 1
    assert shares[-1] + (shares[-1] - shares[-2] if len(shares) > 1 else 1) >= cores
