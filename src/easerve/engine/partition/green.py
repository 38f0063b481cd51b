"""Streams that are confined to some SMs of a CUDA device: green contexts, through the driver API.

`torch.cuda.green_contexts` splits the device anew for each context, so that two contexts get the same low-numbered SMs,
and does not tell how many were granted. Here the device is split once for a pair: a group of the wanted size, and the
remainder. Not yet run on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from easerve.errors import StartupError

GREEN_STREAMS = 12050  # driver version (CUDA 12.5) that can make streams of green contexts
LEAST_SMS = 8  # of a group, and the step between groups, from Hopper on; older devices take it too


@dataclass(frozen=True)
class StreamPair:
    """Handles of two streams whose SMs are disjoint, and how many SMs each was granted."""

    group: int
    remainder: int
    group_sms: int
    remainder_sms: int


class GreenDevice:
    """CUDA device number `index`, whose primary context exists.

    Raises StartupError saying what is missing where driver, bindings or device do not know green contexts.
    """

    def __init__(self, index: int) -> None:
        self._driver = _bindings()
        version = self._call("cuDriverGetVersion")
        if version < GREEN_STREAMS:
            raise StartupError(
                f"the CUDA driver knows CUDA {version // 1000}.{version % 1000 // 10}; partitioning by SMs needs 12.5 "
                "or newer. Update the driver, or use --partition none or auto"
            )
        self._device = self._call("cuDeviceGet", index)
        self._resource = self._call("cuDeviceGetDevResource", self._device, self._sm_kind)
        self._contexts: list[Any] = []
        self._streams: list[Any] = []

    @property
    def sms(self) -> int:
        """Of the whole device."""
        return int(self._resource.sm.smCount)

    @property
    def group_sizes(self) -> range:
        """That the driver grants exactly and that leave a remainder as large as a group must be."""
        step = max(LEAST_SMS, int(getattr(self._resource.sm, "smCoscheduledAlignment", 0)))
        return range(step, self.sms - step + 1, step)

    def split(self, sms: int) -> StreamPair:
        """Streams on a group of at least `sms` SMs and on all others. Raises StartupError if it makes none."""
        groups, _, remainder = self._call("cuDevSmResourceSplitByCount", 1, self._resource, 0, sms)
        if not groups or remainder.sm.smCount == 0:
            raise StartupError(f"the driver does not split {self.sms} SMs at {sms}; use --partition none or auto")
        return StreamPair(
            self._stream(groups[0]), self._stream(remainder), int(groups[0].sm.smCount), int(remainder.sm.smCount)
        )

    def close(self) -> None:
        """Destroys streams and contexts: nothing may run on them any more."""
        for stream in self._streams:  # which outlive their context, and then can only be destroyed
            self._call("cuStreamDestroy", stream)
        self._streams.clear()
        for context in self._contexts:
            self._call("cuGreenCtxDestroy", context)
        self._contexts.clear()

    def _stream(self, resource: Any) -> int:
        description = self._call("cuDevResourceGenerateDesc", [resource], 1)
        flags = self._driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = self._call("cuGreenCtxCreate", description, self._device, flags)
        self._contexts.append(context)
        non_blocking = self._driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        stream = self._call("cuGreenCtxStreamCreate", context, non_blocking, 0)
        self._streams.append(stream)
        return int(stream)

    @property
    def _sm_kind(self) -> Any:
        return self._driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM

    def _call(self, name: str, *arguments: Any) -> Any:
        """A driver function's results: one by itself, several as a tuple."""
        try:
            status, *results = getattr(self._driver, name)(*arguments)
        except RuntimeError as error:  # the driver's library, or a function in it, is not there
            raise StartupError(f"{name}: {error}; use --partition none or auto") from error
        if int(status) != 0:
            raise StartupError(f"{name} failed with {getattr(status, 'name', status)}; use --partition none or auto")
        return results[0] if len(results) == 1 else tuple(results)


def _bindings() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise StartupError(
            "partitioning a CUDA device needs the package cuda-python (cuda.bindings); install it, or use --partition "
            "none or auto"
        ) from error
    return driver
