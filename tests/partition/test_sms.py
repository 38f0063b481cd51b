"""Which stream a stage's work runs on, and what is waited for; torch's streams are replaced by ones with a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from easerve.engine.partition.green import GreenDevice
from easerve.engine.partition.sms import SmPartition
from easerve.errors import StartupError

from .driver import FakeDriver

DEVICE = torch.device("cuda", 0)


class Stream:
    """A stream of torch's, as far as it is used."""

    log: list[tuple[str, object]]

    def __init__(self, name: object) -> None:
        self.name = name

    def synchronize(self) -> None:
        Stream.log.append(("wait", self.name))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    Stream.log = []
    plain = cycle(("plain encode", "plain prefill"))

    @contextmanager
    def current(stream: Stream) -> Iterator[None]:
        Stream.log.append(("enter", stream.name))
        yield
        Stream.log.append(("leave", stream.name))

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream(next(plain)))
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda handle, device: Stream(handle))
    monkeypatch.setattr(torch.cuda, "stream", current)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(multi_processor_count=132))
    return FakeDriver().install(monkeypatch)


def _ran_on() -> Any:
    """The stream of the newest piece of work."""
    return next(name for what, name in reversed(Stream.log) if what == "enter")


def test_stages_run_on_complementary_sms(driver: FakeDriver) -> None:
    partition = SmPartition(DEVICE, GreenDevice(0))
    assert partition.whole == 132
    assert partition.choices == (8, 24, 40, 56, 72, 88, 104, 120)
    for held in partition.choices:
        partition.encode(held, lambda: None)
        encode = driver.streams[_ran_on()]
        partition.prefill(held, lambda: None)
        prefill = driver.streams[_ran_on()]
        assert len(encode) == held
        assert encode | prefill == frozenset(range(132))
        assert not encode & prefill


def test_shares_that_the_driver_refuses_are_done_without(driver: FakeDriver) -> None:
    driver.least = 30
    assert SmPartition(DEVICE, GreenDevice(0)).choices == (40, 56, 72, 88, 104, 120)
    driver.least = 132
    with pytest.raises(StartupError, match="cuDevSmResourceSplitByCount"):
        SmPartition(DEVICE, GreenDevice(0))


def test_what_streams_hold_is_given_back_before_they_are_destroyed(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[int] = []
    monkeypatch.setattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None, raising=False)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(len(driver.destroyed)))
    SmPartition(DEVICE, GreenDevice(0)).close()
    assert given_back == [0]
    assert set(driver.streams) < set(driver.destroyed)
    SmPartition(DEVICE, None).close()
    assert given_back == [0]


def test_without_a_partition_each_stage_has_a_plain_stream_of_its_own(driver: FakeDriver) -> None:
    partition = SmPartition(DEVICE, None)
    assert partition.choices == ()
    partition.encode(None, lambda: None)
    partition.prefill(None, lambda: None)
    assert [name for what, name in Stream.log if what == "enter"] == ["plain encode", "plain prefill"]
    assert driver.streams == {}


def test_work_is_complete_before_its_call_returns_also_when_it_fails(driver: FakeDriver) -> None:
    partition = SmPartition(DEVICE, GreenDevice(0))

    def fail() -> None:
        raise ValueError("a bad item")

    assert partition.encode(8, lambda: "made") == "made"
    assert Stream.log[-2:] == [("wait", _ran_on()), ("leave", _ran_on())]
    with pytest.raises(ValueError, match="a bad item"):
        partition.prefill(8, fail)
    assert Stream.log[-1] == ("wait", _ran_on())


def test_what_encode_made_is_kept_for_every_stream_that_prefill_may_read_it_on(driver: FakeDriver) -> None:
    partition = SmPartition(DEVICE, GreenDevice(0))
    recorded: list[Stream] = []
    partition.adopt([SimpleNamespace(record_stream=recorded.append)])  # type: ignore[list-item]
    named = {stream.name for stream in recorded}
    for held in (None, *partition.choices):
        partition.prefill(held, lambda: None)
        assert _ran_on() in named
        partition.encode(held, lambda: None)
        assert _ran_on() not in named
