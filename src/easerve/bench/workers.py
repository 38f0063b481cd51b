"""What an EAServe server says of its workers: the share of a run that each stage of each was busy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise

import httpx
from prometheus_client.parser import text_string_to_metric_families

BUSY = {"easerve_encode_busy_seconds_total": "encode", "easerve_generate_busy_seconds_total": "prefill/decode"}
INTERVAL = 2.0  # seconds between looks; workers report twice a second

Busy = Mapping[tuple[str, str], float]  # (worker, stage) -> seconds so far


@dataclass
class Utilisation:
    """Readings of the busy counters, by seconds of the run."""

    readings: list[tuple[float, Busy]] = field(default_factory=list)

    def overall(self) -> dict[tuple[str, str], float]:
        """Busy share of each stage from the first reading to the last; stages that never worked are left out."""
        if not self.readings or self.readings[-1][0] == self.readings[0][0]:  # a run that took no time
            return {}
        (began, before), (ended, after) = self.readings[0], self.readings[-1]
        shares = {key: (after[key] - before.get(key, 0.0)) / (ended - began) for key in after}
        return {key: share for key, share in sorted(shares.items()) if share > 0}

    def over_time(self) -> dict[tuple[str, str], list[tuple[float, float]]]:
        """(moment, busy share since the reading before), for the stages that worked."""
        curves: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in self.overall()}
        for (began, before), (ended, after) in pairwise(self.readings):
            if ended - began < INTERVAL / 2:  # the last, whenever the run ended: too short for counters that tick
                continue
            for key, curve in curves.items():
                if key in after and key in before:
                    curve.append((ended, (after[key] - before[key]) / (ended - began)))
        return curves


@asynccontextmanager
async def watched(read: Callable[[], Awaitable[Busy | None]] | None) -> AsyncIterator[Utilisation]:
    """Reads the busy counters now and then while the block runs; never without `read`, which gives None if it cannot.

    Time is the loop's.
    """
    found = Utilisation()
    if read is None:
        yield found
        return
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def look() -> None:
        if (busy := await read()) is not None:
            found.readings.append((loop.time() - began, busy))

    async def keep_looking() -> None:
        while True:
            await asyncio.sleep(INTERVAL)
            await look()

    await look()
    task = asyncio.create_task(keep_looking())
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await look()


async def busy_at(http: httpx.AsyncClient) -> Busy | None:
    """An EAServe server's counters; None if it does not give them."""
    try:
        return busy_seconds((await http.get("/metrics")).text)
    except (httpx.HTTPError, ValueError):
        return None


def busy_seconds(text: str) -> Busy:
    """The busy counters of a Prometheus text."""
    return {
        (sample.labels["worker"], BUSY[sample.name]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name in BUSY
    }
