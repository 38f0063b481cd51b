"""A CUDA driver without CUDA: splits sets of SM numbers as green contexts do, and remembers which stream has which."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

GRAIN = 8  # SMs, of a group on Hopper


class Status(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_NOT_SUPPORTED = 801


class Resource:
    """SMs by number."""

    def __init__(self, sms: frozenset[int]) -> None:
        self.sms = sms
        self.sm = SimpleNamespace(smCount=len(sms), smCoscheduledAlignment=GRAIN)


@dataclass
class FakeDriver:
    """The functions and enumerations that are used of cuda.bindings.driver."""

    sms: int = 132
    version: int = 13000
    fails: str = ""  # name of a function
    streams: dict[int, frozenset[int]] = field(default_factory=dict)
    destroyed: list[Any] = field(default_factory=list)
    least: int = 0  # SMs of the smallest group that can be had

    CUdevResourceType = SimpleNamespace(CU_DEV_RESOURCE_TYPE_SM=1)
    CUgreenCtxCreate_flags = SimpleNamespace(CU_GREEN_CTX_DEFAULT_STREAM=1)
    CUstream_flags = SimpleNamespace(CU_STREAM_NON_BLOCKING=1)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
        package, bindings = ModuleType("cuda"), ModuleType("cuda.bindings")
        bindings.driver = self  # type: ignore[attr-defined]
        monkeypatch.setitem(__import__("sys").modules, "cuda", package)
        monkeypatch.setitem(__import__("sys").modules, "cuda.bindings", bindings)
        return self

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "fails"):
            return lambda *_: (Status.CUDA_ERROR_NOT_SUPPORTED, None)
        return object.__getattribute__(self, name)

    def cuDriverGetVersion(self) -> Any:
        return Status.CUDA_SUCCESS, self.version

    def cuDeviceGet(self, ordinal: int) -> Any:
        return Status.CUDA_SUCCESS, f"device {ordinal}"

    def cuDeviceGetDevResource(self, device: str, kind: int) -> Any:
        assert (device, kind) == ("device 0", 1)
        return Status.CUDA_SUCCESS, Resource(frozenset(range(self.sms)))

    def cuDevSmResourceSplitByCount(self, groups: int, resource: Resource, flags: int, least: int) -> Any:
        """The lowest SMs, always: contexts that are split off one by one overlap."""
        assert (groups, flags) == (1, 0)
        if least < self.least:
            return Status.CUDA_ERROR_INVALID_VALUE, None, None, None
        size = -(-least // GRAIN) * GRAIN
        group = frozenset(sorted(resource.sms)[:size])
        return Status.CUDA_SUCCESS, [Resource(group)], 1, Resource(resource.sms - group)

    def cuDevResourceGenerateDesc(self, resources: list[Resource], count: int) -> Any:
        assert len(resources) == count == 1
        return Status.CUDA_SUCCESS, resources[0]

    def cuGreenCtxCreate(self, description: Resource, device: str, flags: int) -> Any:
        if flags != 1:
            return Status.CUDA_ERROR_INVALID_VALUE, None
        return Status.CUDA_SUCCESS, description

    def cuGreenCtxStreamCreate(self, context: Resource, flags: int, priority: int) -> Any:
        if flags != 1:
            return Status.CUDA_ERROR_INVALID_VALUE, None
        handle = 1000 + len(self.streams)
        self.streams[handle] = context.sms
        return Status.CUDA_SUCCESS, handle

    def cuStreamDestroy(self, handle: int) -> Any:
        self.destroyed.append(handle)
        return (Status.CUDA_SUCCESS,)

    def cuGreenCtxDestroy(self, context: Resource) -> Any:
        self.destroyed.append(context)
        return (Status.CUDA_SUCCESS,)
