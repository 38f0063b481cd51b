"""A wait is overdue exactly when its time has passed, whatever waits came before it."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.pipeline.deadline import Wait, Watch
from easerve.simulate.clock import run_virtually

waits = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(0, 20)), min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(waits)
def test_a_wait_is_told_of_once_and_at_its_moment(plan: list[tuple[int, int, int]]) -> None:
    """Waits of a bound, the time their answer takes, and the pause after it."""

    async def scenario() -> None:
        loop, told = asyncio.get_running_loop(), list[tuple[int, float]]()
        watch = Watch(lambda wait: told.append((numbers[wait], loop.time())))
        numbers: dict[Wait, int] = {}
        expected: list[tuple[int, float]] = []
        for number, (bound, answer, pause) in enumerate(plan):
            watch.begin("decode", bound)
            assert watch.current is not None
            numbers[watch.current] = number
            if answer >= bound:
                expected.append((number, loop.time() + bound))
            await asyncio.sleep(answer + 0.5)
            watch.end()
            await asyncio.sleep(pause)
        watch.close()
        await asyncio.sleep(100)
        assert told == expected

    run_virtually(scenario())
