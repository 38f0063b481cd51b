"""How long bytes travel between two workers: latency and bandwidth of the way they take."""

from __future__ import annotations

from dataclasses import dataclass

from easerve.costs.hardware import Hardware
from easerve.errors import StartupError


@dataclass(frozen=True)
class Link:
    """A `LinkCosts`. Latency in seconds, bandwidth in bytes a second."""

    latency: float
    bandwidth: float
    source: str

    def seconds(self, nbytes: int) -> float:
        return self.latency + nbytes / self.bandwidth if nbytes else 0.0


_DEVICE_LATENCY = 10e-6  # of a copy between two devices; aiconfigurator-core's figure for all of its systems
_FIXED = {
    "shm": Link(1.7e-6, 15e9, "measured: two processes on one host, 1 MiB and more"),
    "rdma": Link(5e-6, 25e9, "assumed: one 200 Gb/s adapter per device"),
    "tcp": Link(100e-6, 1.25e9, "assumed: 10 Gb/s Ethernet"),
}
LINKS = (*_FIXED, "nvlink", "pcie")


def make_link(kind: str, hardware: Hardware | None = None, bandwidth: float | None = None) -> Link:
    """A way of this kind; `hardware` is needed for nvlink and pcie, `bandwidth` (bytes a second) overrides the table's.

    Raises StartupError for a kind that is not known, or that the device lacks.
    """
    if kind not in LINKS:
        raise StartupError(f"there is no link {kind!r}; there are {', '.join(LINKS)}")
    known = _FIXED.get(kind) or _of_device(kind, hardware)
    if bandwidth is None:
        return known
    if bandwidth <= 0:
        raise StartupError(f"a link of {bandwidth} bytes a second carries nothing; give more than 0")
    return Link(known.latency, bandwidth, "given")


def _of_device(kind: str, hardware: Hardware | None) -> Link:
    if hardware is None:
        raise StartupError(f"how fast {kind} is depends on the device; name the hardware")
    if kind not in hardware.links:
        raise StartupError(f"{hardware.name} has no {kind}; it has {', '.join(hardware.links)}")
    return Link(_DEVICE_LATENCY, hardware.links[kind], hardware.source)
