"""The calls that make stream pairs, against a driver that splits sets of SM numbers."""

from __future__ import annotations

import sys

import pytest

from easerve.engine.partition.green import GreenDevice
from easerve.errors import StartupError

from .driver import FakeDriver


@pytest.mark.parametrize("sms", [132, 142, 108, 20])
def test_each_pair_is_disjoint_and_covers_the_device(monkeypatch: pytest.MonkeyPatch, sms: int) -> None:
    driver = FakeDriver(sms=sms).install(monkeypatch)
    device = GreenDevice(0)
    assert device.sms == sms
    assert list(device.group_sizes) == list(range(8, sms - 7, 8))
    for size in device.group_sizes:
        pair = device.split(size)
        group, remainder = driver.streams[pair.group], driver.streams[pair.remainder]
        assert not group & remainder
        assert group | remainder == frozenset(range(sms))
        assert (pair.group_sms, pair.remainder_sms) == (len(group), len(remainder)) == (size, sms - size)


def test_what_was_granted_is_told_not_what_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDriver().install(monkeypatch)
    pair = GreenDevice(0).split(13)
    assert (pair.group_sms, pair.remainder_sms) == (16, 116)


@pytest.mark.parametrize("asked", [132, 140])
def test_a_group_that_leaves_no_remainder_is_refused(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    FakeDriver().install(monkeypatch)
    with pytest.raises(StartupError, match=f"132 SMs at {asked}.*--partition none"):
        GreenDevice(0).split(asked)


def test_a_device_too_small_to_split_has_no_group_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDriver(sms=14).install(monkeypatch)
    assert list(GreenDevice(0).group_sizes) == []


def test_streams_are_destroyed_and_then_their_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver().install(monkeypatch)
    device = GreenDevice(0)
    device.split(8)
    device.split(64)
    device.close()
    device.close()
    streams, contexts = driver.destroyed[:4], driver.destroyed[4:]
    assert streams == list(driver.streams)
    assert sorted(len(one.sms) for one in contexts) == [8, 64, 68, 124]


def test_an_old_driver_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDriver(version=12040).install(monkeypatch)
    with pytest.raises(StartupError, match=r"CUDA 12\.4.*12\.5"):
        GreenDevice(0)


@pytest.mark.parametrize(
    "name",
    ["cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuGreenCtxCreate", "cuGreenCtxStreamCreate"],
)
def test_a_call_that_fails_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    FakeDriver(fails=name).install(monkeypatch)
    with pytest.raises(StartupError, match=f"{name} failed with CUDA_ERROR_NOT_SUPPORTED.*--partition none"):
        GreenDevice(0).split(8)


def test_missing_bindings_are_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(StartupError, match="cuda-python"):
        GreenDevice(0)
