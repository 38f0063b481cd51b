"""What each stage holds, and when that changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from easerve.engine.partition.sharing import Sharing
from easerve.policy.partition import Dynamic, EncodeProfile, Static, Unpartitioned

from .conftest import Recorder

# Of four units: one item is as fast on one unit, two items are on two, four items need all.
PROFILE = EncodeProfile((1, 2, 4), (1, 2, 4), ((1.0, 1.0, 1.0), (2.2, 1.2, 1.2), (4.0, 3.0, 2.0)))


def _clock(step: float) -> Callable[[], float]:
    ticks: Iterator[int] = count()
    return lambda: next(ticks) * step


def test_prefill_has_what_encode_leaves_and_everything_between_batches() -> None:
    device = Recorder()
    sharing = Sharing(device, Dynamic(PROFILE), _clock(100.0))

    def beside() -> None:
        sharing.prefill(lambda: None)

    beside()
    for items in (1, 2, 4, 1):
        sharing.encode(items, beside)
        beside()
    assert device.ran == [
        ("prefill", None),
        ("encode", 1), ("prefill", 1), ("prefill", None),
        ("encode", 2), ("prefill", 2), ("prefill", None),
        ("encode", None), ("prefill", None), ("prefill", None),
        ("encode", 1), ("prefill", 1), ("prefill", None),
    ]  # fmt: skip
    assert sharing.batches_apart == 3
    assert sharing.units == 1
    assert sharing.switches == 6 + 4


def test_a_running_chunk_keeps_what_it_has_until_the_next_begins() -> None:
    device = Recorder()
    sharing = Sharing(device, Dynamic(PROFILE), _clock(100.0))
    chunk, begun = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        chunk.wait(10)

    running = threading.Thread(target=sharing.prefill, args=(work,))
    running.start()
    begun.wait(10)
    sharing.encode(1, lambda: None)  # begins and ends while the chunk runs
    chunk.set()
    running.join()
    sharing.prefill(lambda: None)
    assert device.ran == [("prefill", None), ("encode", 1), ("prefill", None)]


def test_a_batch_that_fails_gives_its_part_back() -> None:
    device = Recorder()
    sharing = Sharing(device, Dynamic(PROFILE), _clock(100.0))

    def fail() -> None:
        raise ValueError("a bad item")

    with pytest.raises(ValueError, match="a bad item"):
        sharing.encode(1, fail)
    sharing.prefill(lambda: None)
    assert device.ran[-1] == ("prefill", None)


def test_under_a_load_that_no_share_keeps_up_with_encode_has_the_whole_device() -> None:
    device = Recorder()
    sharing = Sharing(device, Dynamic(PROFILE), _clock(0.01))  # a hundred batches a second, of a second each
    sharing.encode(1, lambda: None)
    sharing.encode(1, lambda: None)
    assert device.ran == [("encode", 1), ("encode", None)]


def test_a_static_part_is_encodes_own_also_between_batches() -> None:
    device = Recorder()
    sharing = Sharing(device, Static(2.0, device.choices), _clock(1.0))
    sharing.prefill(lambda: None)
    sharing.encode(4, lambda: sharing.prefill(lambda: None))
    assert device.ran == [("prefill", 2), ("encode", 2), ("prefill", 2)]
    assert sharing.switches == 0


def test_without_a_partition_nothing_ever_moves() -> None:
    device = Recorder()
    sharing = Sharing(device, Unpartitioned(), _clock(1.0))
    sharing.encode(4, lambda: sharing.prefill(lambda: None))
    assert device.ran == [("encode", None), ("prefill", None)]
    assert (sharing.switches, sharing.units, sharing.batches_apart) == (0, 0, 0)
