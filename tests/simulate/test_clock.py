"""The virtual loop is an ordinary loop, but for time."""

from __future__ import annotations

import asyncio
import time
from random import Random

import pytest

from easerve.simulate.clock import Deadlock, run_virtually


def test_timers_fire_in_order_at_their_moment_and_time_passes_for_nothing_else() -> None:
    async def main() -> list[tuple[float, int]]:
        loop, fired = asyncio.get_running_loop(), []
        moments = [Random(0).choice((0.5, 1.0, 2.5, 3600.0)) for _ in range(50)]
        for number, moment in enumerate(moments):
            timer = loop.call_at(moment, lambda number=number: fired.append((loop.time(), number)))
            if number % 7 == 0:
                timer.cancel()
        for _ in range(1000):
            await asyncio.sleep(0)
        assert loop.time() == 0.0
        await asyncio.sleep(3600.0)
        await asyncio.sleep(0)
        expected = sorted((moment, number) for number, moment in enumerate(moments) if number % 7)
        assert fired == expected
        return fired

    assert run_virtually(main()) == run_virtually(main())


def test_timeouts_cancel_at_their_deadline() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(120):
                await asyncio.Event().wait()
        async with asyncio.timeout(10):
            await asyncio.sleep(9.5)
        return asyncio.get_running_loop().time()

    assert run_virtually(main()) == 129.5


def test_many_met_deadlines_leave_nothing_behind() -> None:
    async def main() -> int:
        loop = asyncio.get_running_loop()
        for _ in range(5000):
            async with asyncio.timeout(1e6):
                await asyncio.sleep(2.0)
        assert loop.time() == 10_000.0
        return len(loop._timers)  # type: ignore[attr-defined]

    cpu = time.process_time()
    assert run_virtually(main()) < 500
    print(f"10,000 simulated seconds in {time.process_time() - cpu:.3f} s")


def test_waiting_for_what_cannot_come_is_an_error() -> None:
    async def main() -> None:
        await asyncio.sleep(3.0)
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="3 s after the start"):
        run_virtually(main())


def test_work_for_a_thread_is_done_at_once() -> None:
    async def main() -> tuple[int, float]:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return await asyncio.to_thread(lambda: 7), asyncio.get_running_loop().time()

    assert run_virtually(main()) == (7, 0.0)
